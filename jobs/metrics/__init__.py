"""GET /metrics, in Prometheus' text format.

Everything is read from the database when somebody asks, so it does not matter which of the web processes answers, nor
how many workers there are. `catalogue` declares the metrics, `readings` takes them, `exposition` writes them down.
"""
