"""Model providers: who answers a prompt.

    base ............... the protocol, the request and the result
    messages ........... from prompt and input to messages
    structured ......... from a model's text to a valid output
    router ............. the provider for a credential mode; each mode has its own endpoint
    late ............... a provider whose library is loaded with its first call
    endpoint ........... the address of a model server, in one spelling
    openai_compatible .. any server that speaks the chat completions protocol
    offline/ ........... works on the text itself, without network or model

Promises: at most one generation per call, "not sent" told from "sent, outcome unknown", no key or text in an error.
Left to others: what is retried (engine.pipeline), what is recorded (engine.usage).
"""
