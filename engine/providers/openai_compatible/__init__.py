"""Any server that speaks the chat completions protocol: OpenAI, DeepSeek, vLLM, Ollama and others.

    provider ........... one call: from request to result
    dialect ............ what a server understands, learnt from its refusals
    answer ............. reads a whole or a streamed answer
    outcomes ........... which error a failure is; the only code that reads error bodies
    wire ............... the HTTP client: knows whether a request has left, and sends no more than it must

Promises: a key is sent to its own base URL alone; a cut or filtered answer is never a result.
"""

from engine.providers.openai_compatible.provider import OpenAICompatibleProvider

__all__ = ["OpenAICompatibleProvider"]
