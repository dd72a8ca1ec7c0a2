"""What `make run` runs: database, account, web server and worker, all stopped together by Ctrl-C."""

import contextlib
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import django
from django.core.management import call_command
from django.db import OperationalError, connections

HOST = "127.0.0.1"
MANAGE = Path(__file__).resolve().parent.parent / "manage.py"

SAMPLE = "sample"
SAMPLE_SECONDS = 36
"""Longer than a chunk, so that several jobs share it."""

# A little more than a worker takes to let its running jobs finish.
STOP_SECONDS = 40


class Refused(Exception):
    """The site cannot be started; the message says why and what to do."""


def main() -> int:
    stop_requests = count_stop_requests()
    try:
        port = free_port()
        prepare_site()
    except Refused as refusal:
        print(refusal, file=sys.stderr)
        return 2
    if stop_requests:
        return 0
    from videos.site_address import announced

    with announced(f"http://{HOST}:{port}"):
        return serve(port, stop_requests)


def count_stop_requests() -> list[int]:
    """A list that grows with each Ctrl-C or SIGTERM. Nothing is interrupted, so no child is forgotten."""
    requests: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, frame: requests.append(number))
    return requests


def free_port() -> int:
    """The port to listen on, given by PORT."""
    given = os.environ.get("PORT") or "8000"
    if not (given.isascii() and given.isdecimal() and 0 < int(given) < 65536):
        raise Refused(f"PORT={given} is not a port; choose a number from 1 to 65535.")
    port = int(given)
    with socket.socket() as listener:
        # As the web server does it: a port that was in use a moment ago counts as free.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((HOST, port))
        except OSError as error:
            raise Refused(f"Port {port}: {error.strerror}. Choose another: make run PORT=8001") from error
    return port


def prepare_site() -> None:
    """Migrate; on the first run also create the account and something to see."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
    django.setup()
    try:
        call_command("migrate", verbosity=0)
    except OperationalError as error:
        raise Refused(f"The database cannot be used: {error}".strip()) from error
    if create_account():
        add_sample()
    connections.close_all()


def add_sample() -> None:
    """A short clip to watch, made here: a test picture that counts, and a tone."""
    from videos import intake
    from videos.media import ffmpeg
    from videos.models import Channel

    channel, _ = Channel.objects.get_or_create(slug="samples", defaults={"name": "Samples"})
    with tempfile.TemporaryDirectory() as folder:
        ffmpeg.run(
            [
                *("-f", "lavfi", "-i", f"testsrc2=size=1280x720:rate=30:duration={SAMPLE_SECONDS}"),
                *("-f", "lavfi", "-i", f"sine=frequency=220:beep_factor=4:duration={SAMPLE_SECONDS}"),
                *(
                    "-c:v",
                    "libx264",
                    "-preset",
                    "ultrafast",
                    "-pix_fmt",
                    "yuv420p",
                    "-c:a",
                    "aac",
                    "sample.mp4",
                ),
            ],
            ffmpeg=ffmpeg.binary(),
            folder=Path(folder),
        )
        intake.accept(Path(folder) / "sample.mp4", channel=channel, title="Sample", slug=SAMPLE)


def create_account() -> bool:
    """Create the superuser `admin` and print its password, unless there is a superuser already."""
    from django.contrib.auth.models import User

    if superuser := User.objects.filter(is_superuser=True).first():
        name = superuser.get_username()
        print(f"account {name} exists; `{manage('changepassword', name)}` sets a new password", flush=True)
        return False
    password = secrets.token_urlsafe(12)
    User.objects.create_superuser("admin", password=password)
    print(f"account created; shown only this once: user admin, password {password}", flush=True)
    return True


def serve(port: int, stop_requests: list[int]) -> int:
    """Run web server and worker until one of them ends or someone asks to stop; the exit code says which."""
    children: dict[str, subprocess.Popen[bytes]] = {}
    try:
        children["web server"] = web = start("runserver", "--noreload", f"{HOST}:{port}")
        # Both in one group apart from ours: Ctrl-C comes here alone, and each child is asked to end once.
        children["worker"] = start("runworker", group=web.pid)
        welcomed = False
        while not stop_requests and not ended(children):
            if not welcomed and answers(port):
                print_welcome(port)
                welcomed = True
            time.sleep(0.2)
        if stop_requests:
            print("\nStopping…", flush=True)
            return 0
        print(f"The {' and the '.join(ended(children))} ended by itself; stopping.", file=sys.stderr)
        return 1
    finally:
        stop(list(children.values()), stop_requests)


def ended(children: dict[str, subprocess.Popen[bytes]]) -> list[str]:
    return [name for name, child in children.items() if child.poll() is not None]


def start(*arguments: str, group: int = 0) -> subprocess.Popen[bytes]:
    command = [sys.executable, str(MANAGE), *arguments]
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, process_group=group)


def answers(port: int) -> bool:
    try:
        socket.create_connection((HOST, port), timeout=1).close()
    except OSError:
        return False
    return True


def stop(children: list[subprocess.Popen[bytes]], stop_requests: list[int]) -> None:
    """Ask the children to end; kill what is left when time is up, or at once on a second Ctrl-C."""
    for child in children:
        child.terminate()
    deadline = time.monotonic() + STOP_SECONDS
    while any(child.poll() is None for child in children):
        if time.monotonic() > deadline or len(stop_requests) > 1:
            break
        time.sleep(0.05)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(children[0].pid, signal.SIGKILL)
    for child in children:
        child.wait()


def print_welcome(port: int) -> None:
    print(
        f"\nSprocket runs at http://{HOST}:{port}/admin/ (Ctrl-C stops it; the data stay)\n"
        f"What visitors see: http://{HOST}:{port}/\n"
        f"The sample: http://{HOST}:{port}/v/{SAMPLE}/ (it shows how far it is, then plays)\n"
        "In another terminal:\n"
        f"  {manage('addvideo', 'FILE', '--wait')}\n"
        f"  {manage('jobs', 'status')}\n",
        flush=True,
    )


def manage(*arguments: str) -> str:
    """A `manage.py` command as one would type it here."""
    return " ".join([as_typed(Path(sys.executable)), as_typed(MANAGE), *arguments])


def as_typed(path: Path) -> str:
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


if __name__ == "__main__":
    sys.exit(main())
