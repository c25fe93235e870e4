"""THE HTTP EDGE: FastAPI routers over the app, each of which a host application may mount by itself.

app .............. create_http_app: the whole edge;   server ... aijobs serve
edge ............. what all routers share

auth, tokens ..... who is calling;   gate ... how often, and may it do this;   security ... from the settings
limits ........... size of a body, rate of requests
problem, routes .. every error as a problem;   errors ... what the edge itself refuses
idempotency ...... Idempotency-Key for any ASGI application;   keyed ... one such request while it runs
watch ............ who waits for jobs, with one look at the database for all
hearing .......... hints from Redis that a job has ended

jobs, events ..... /api/ai: read, wait, cancel, follow
reply ............ 202 with the job's place, for a host's own routes
"""
