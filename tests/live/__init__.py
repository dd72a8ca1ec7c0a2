"""Pages that change while somebody looks at them: server-sent events."""
