"""The customer's five documents, statement by statement (docs/seeds.md), and the whole pipeline with real encoding."""
