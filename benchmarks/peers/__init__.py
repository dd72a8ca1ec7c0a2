"""The peers: one module each, run by the interpreter of benchmarks/.venv-peers."""
