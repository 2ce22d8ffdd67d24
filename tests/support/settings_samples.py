"""Settings files as people have them."""

import json

BIG = {
    "$schema": "https://json.schemastore.org/claude-code-settings.json",
    "statusLine": {"type": "command", "command": "~/.claude/statusline.sh", "padding": 0},
    "env": {"EDITOR": "vi", "LC_MESSAGES": "größer → 日本語", "EMPTY": ""},
    "permissions": {
        "allow": ["Bash(npm run lint)", "Bash(git log:*)", "Read(~/.zshrc)"],
        "deny": ["Read(./.env)", "Read(./secrets/**)"],
        "additionalDirectories": [],
    },
    "hooks": {
        "Notification": [{"hooks": [{"type": "command", "command": "notify-send done"}]}],
        "PostToolUse": [
            {
                "matcher": "Read",
                "hooks": [{"type": "command", "command": "echo read >> /tmp/log", "timeout": 5}],
            },
            {"matcher": "Edit|Write", "hooks": [{"type": "command", "command": "make format"}]},
        ],
        "SessionStart": [
            {"matcher": "startup", "hooks": [{"type": "command", "command": "git fetch"}]}
        ],
    },
    "model": "opus",
    "alwaysThinkingEnabled": True,
    "cleanupPeriodDays": 30,
}
ODD = """{
        "model"  :  "opus" ,
  "hooks":{ "Stop":[ {"hooks":[
        {"type":"command","command":"say done"} ] } ],

     "PostToolUse": [] },
"env": {
}
   }

"""
COMMA_FIRST = """{ "a": 1
, "hooks": { "Stop": [] }
, "b": [1, 2]
}"""


def two_spaces(value):
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


FILES = {
    "an empty object": "{}",
    "an empty object and a line": "{}\n",
    "an empty object over lines": "{\n}\n",
    "nothing at all": "",
    "one key": '{\n  "model": "opus"\n}\n',
    "big": two_spaces(BIG),
    "four spaces": json.dumps(BIG, indent=4) + "\n",
    "tabs": json.dumps(BIG, indent="\t") + "\n",
    "no indentation": json.dumps(BIG, indent=0) + "\n",
    "carriage returns": two_spaces(BIG).replace("\n", "\r\n"),
    "no newline at the end": two_spaces(BIG).rstrip("\n"),
    "byte order mark": "\ufeff" + two_spaces(BIG),
    "everything at once": "\ufeff" + json.dumps(BIG, indent="\t").replace("\n", "\r\n"),
    "one line": json.dumps(BIG),
    "minified": json.dumps(BIG, separators=(",", ":")),
    "odd": ODD,
    "commas first": COMMA_FIRST,
    "empty hooks": '{"hooks": {}}\n',
    "empty events": '{\n  "hooks": {\n    "SessionStart": [],\n    "Stop": []\n  }\n}\n',
}
