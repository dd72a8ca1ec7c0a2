"""The site as it is deployed: gunicorn, uvicorn, nginx, PgBouncer, containers, Kubernetes."""
