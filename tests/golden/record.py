"""Record the golden story: ``python -m golden.record SOURCE FOLDER``, with ``tests`` on the path.

``SOURCE`` is the folder that holds the package ``holdfast``, of any version.
"""

import os
import sys

from golden.chapters import CHAPTERS, TEXT_ONLY
from golden.stage import Runner
from golden.transcript import Transcript


def pages_of(name, runner):
    """Play a chapter; return the golden pages it has, and the files that both plays leave."""
    text = Transcript(CHAPTERS[name], runner)
    pages = {f"{name}.txt": text.text, f"{name}.files.txt": text.files_text}
    if name in TEXT_ONLY:
        return pages, text.files, text.files
    answers = Transcript(CHAPTERS[name], runner, as_json=True)
    return {**pages, f"{name}.json.txt": answers.text}, text.files, answers.files


def record(source, folder, names):
    os.makedirs(folder, exist_ok=True)
    with Runner(source) as runner:
        for name in names:
            for page, text in pages_of(name, runner)[0].items():
                with open(os.path.join(folder, page), "w", encoding="utf-8") as file:
                    file.write(text)


if __name__ == "__main__":
    record(sys.argv[1], sys.argv[2], sys.argv[3:] or CHAPTERS)
