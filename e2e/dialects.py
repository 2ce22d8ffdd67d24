"""The words of three APIs: what a request says, and how an answer is written.

A dialect reads the conversation out of a request as parts, and writes a reply; what to reply is
``stub``'s matter.
"""

import json

from stub import Part


def _sse(events):
    """Server-sent events, each named by its type."""
    lines = (f"event: {one['type']}\ndata: {json.dumps(one)}\n\n" for one in events)
    return "text/event-stream", "".join(lines).encode()


def _texts(content):
    """The texts in a message's content, which may be plain text itself."""
    if isinstance(content, str):
        return [content]
    return [piece["text"] for piece in content or [] if isinstance(piece.get("text"), str)]


class Messages:
    """Anthropic's Messages API, as Claude Code speaks it."""

    def asks_model(self, path):
        return path.startswith("/v1/messages")

    def counts_tokens(self, path):
        return path.startswith("/v1/messages/count_tokens")

    def count(self, number):
        return {"input_tokens": number}

    def parts(self, body):
        parts = [Part("system", "text", text) for text in _texts(body.get("system"))]
        for message in body["messages"]:
            content = message["content"]
            pieces = [{"type": "text", "text": content}] if isinstance(content, str) else content
            for piece in pieces:
                if piece["type"] == "text":
                    parts.append(Part(message["role"], "text", piece["text"]))
                elif piece["type"] == "tool_use":
                    parts.append(Part(message["role"], "call", json.dumps(piece["input"])))
                elif piece["type"] == "tool_result":
                    told = "\n".join(_texts(piece.get("content")))
                    number = int(piece["tool_use_id"].removeprefix("toolu_"))
                    parts.append(Part(message["role"], "result", told, number))
        return parts

    def sums_up(self, parts):
        return any(
            part.role == "user" and "create a detailed summary of" in part.text
            for part in parts[-3:]
        )

    def too_long(self):
        why = "prompt is too long: 250000 tokens > 200000 maximum"
        return {"type": "error", "error": {"type": "invalid_request_error", "message": why}}

    def written(self, reply, path, body):
        usage = {"input_tokens": reply.tokens, "output_tokens": 5}
        if reply.call is None:
            block, stop = {"type": "text", "text": reply.text}, "end_turn"
        else:
            name, given = reply.call
            call = f"toolu_{reply.number:06}"
            block = {"type": "tool_use", "id": call, "name": name, "input": given}
            stop = "tool_use"
        message = {
            "id": f"msg_{reply.number:06}", "type": "message", "role": "assistant",
            "model": body["model"], "content": [block], "stop_reason": stop,
            "stop_sequence": None, "usage": usage,
        }  # fmt: skip
        if not body.get("stream"):
            return "application/json", json.dumps(message).encode()
        if reply.call is None:
            empty, delta = {**block, "text": ""}, {"type": "text_delta", "text": reply.text}
        else:
            delta = {"type": "input_json_delta", "partial_json": json.dumps(given)}
            empty = {**block, "input": {}}
        begun = {**message, "content": [], "stop_reason": None}
        ended = {"stop_reason": stop, "stop_sequence": None}
        return _sse([
            {"type": "message_start", "message": begun},
            {"type": "content_block_start", "index": 0, "content_block": empty},
            {"type": "content_block_delta", "index": 0, "delta": delta},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": ended, "usage": usage},
            {"type": "message_stop"},
        ])  # fmt: skip


class Responses:
    """OpenAI's Responses API, as Codex speaks it."""

    def asks_model(self, path):
        return path.partition("?")[0].endswith("/responses")

    def counts_tokens(self, path):
        return False

    def parts(self, body):
        parts = [Part("system", "text", body.get("instructions") or "")]
        for item in body["input"]:
            kind = item.get("type", "message")
            if kind == "message":
                parts += [Part(item["role"], "text", text) for text in _texts(item["content"])]
            elif kind.endswith("_call"):
                parts.append(Part("assistant", "call", json.dumps(item)))
            elif kind.endswith("_output"):
                told = item["output"]
                parts.append(
                    Part("user", "result", told if isinstance(told, str) else json.dumps(told))
                )
        return parts

    def sums_up(self, parts):
        return any("CONTEXT CHECKPOINT COMPACTION" in part.text for part in parts[-2:])

    def too_long(self):
        why = "Your input exceeds the context window of this model."
        return {"error": {"code": "context_length_exceeded", "message": why}}

    def written(self, reply, path, body):
        if reply.call is None:
            said = [{"type": "output_text", "text": reply.text}]
            item = {
                "type": "message",
                "id": f"m{reply.number}",
                "role": "assistant",
                "content": said,
            }
        else:
            name, given = reply.call
            item = {
                "type": "function_call", "id": f"f{reply.number}", "name": name,
                "call_id": f"c{reply.number}", "arguments": json.dumps(given),
            }  # fmt: skip
        usage = {"input_tokens": reply.tokens, "output_tokens": 5, "total_tokens": reply.tokens + 5}
        name = f"r{reply.number}"
        whole = {"id": name, "status": "completed", "output": [item], "usage": usage}
        return _sse([
            {"type": "response.created", "response": {"id": name}},
            {"type": "response.output_item.done", "output_index": 0, "item": item},
            {"type": "response.completed", "response": whole},
        ])  # fmt: skip


class GenerateContent:
    """Google's generateContent, as Gemini CLI speaks it."""

    def asks_model(self, path):
        return ":generateContent" in path or ":streamGenerateContent" in path

    def counts_tokens(self, path):
        return ":countTokens" in path

    def count(self, number):
        return {"totalTokens": number}

    def parts(self, body):
        system = (body.get("systemInstruction") or {}).get("parts", [])
        parts = [Part("system", "text", text) for text in _texts(system)]
        for content in body["contents"]:
            role = "assistant" if content.get("role") == "model" else "user"
            for piece in content["parts"]:
                if "functionCall" in piece:
                    parts.append(Part(role, "call", json.dumps(piece["functionCall"])))
                elif "functionResponse" in piece:
                    parts.append(Part(role, "result", json.dumps(piece["functionResponse"])))
                else:
                    parts.append(Part(role, "text", piece.get("text", "")))
        return parts

    def sums_up(self, parts):
        return any("state_snapshot" in part.text for part in parts if part.role == "system")

    def too_long(self):
        why = "The input token count exceeds the maximum number of tokens allowed."
        return {"error": {"code": 400, "status": "INVALID_ARGUMENT", "message": why}}

    def written(self, reply, path, body):
        if reply.call is None:
            piece = {"text": reply.text}
        else:
            name, given = reply.call
            piece = {"functionCall": {"name": name, "args": given}}
        whole = {
            "candidates": [
                {"content": {"role": "model", "parts": [piece]}, "finishReason": "STOP", "index": 0}
            ],
            "usageMetadata": {
                "promptTokenCount": reply.tokens,
                "candidatesTokenCount": 5,
                "totalTokenCount": reply.tokens + 5,
            },
        }
        if ":streamGenerateContent" not in path:
            return "application/json", json.dumps(whole).encode()
        return "text/event-stream", f"data: {json.dumps(whole)}\n\n".encode()
