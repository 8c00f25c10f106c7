"""``spark-durable serve``: the embedded server as a process of its own."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any, TypeAlias

from spark_durable.protocol.headers import DEFAULT_PORT
from spark_durable.protocol.settings import TOKEN_VARIABLE

Subparsers: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


def add_parser(commands: Subparsers) -> None:
    parser = commands.add_parser("serve", help="run the server", description="Run the server.")
    # An argument left out is absent, so that it does not stand in the way of the file.
    add = parser.add_argument
    add(
        "--config",
        type=Path,
        metavar="FILE",
        help="TOML with any of the server's settings (conf/server.toml lists them); arguments "
        "take precedence",
    )
    settings: list[tuple[str, dict[str, Any]]] = [
        ("--host", {"help": "address to listen on (default: 127.0.0.1)"}),
        ("--port", {"type": int, "help": f"0 takes a free one (default: {DEFAULT_PORT})"}),
        ("--data-dir", {"type": Path, "help": "keep streams here (default: in memory)"}),
        (
            "--token",
            {
                "help": "bearer token to ask for (default, where the file names none either: the "
                f"environment's {TOKEN_VARIABLE})"
            },
        ),
        (
            "--allow-anonymous",
            {
                "action": "store_true",
                "help": "listen beyond loopback without a token: whoever reaches the port may "
                "read, write and delete",
            },
        ),
        ("--tls-cert", {"type": Path, "help": "certificate chain in PEM: serve https"}),
        ("--tls-key", {"type": Path, "help": "its key, where it is in another file"}),
        ("--long-poll-timeout", {"type": float, "help": "seconds (default: 30)"}),
        ("--max-append-bytes", {"type": int, "help": "largest body of one append"}),
        (
            "--verify",
            {"action": "store_true", "help": "compare all stored bytes with their checksums first"},
        ),
        ("--webhooks", {"action": "store_true", "help": "allow webhook subscriptions"}),
    ]
    for flag, options in settings:
        add(flag, default=argparse.SUPPRESS, **options)
    names = [flag.removeprefix("--").replace("-", "_") for flag, _ in settings]
    parser.set_defaults(run=run, settings=names)


def run(arguments: argparse.Namespace) -> int:
    try:
        from spark_durable.server.config import ServerConfig
        from spark_durable.server.config_file import read_config_file
        from spark_durable.server.serve import serve
    except ImportError as error:
        print(
            f"spark-durable: the server's packages are missing ({error.name}): "
            "pip install 'spark-durable[server]'",
            file=sys.stderr,
        )
        return 1
    try:
        settings = read_config_file(arguments.config) if arguments.config else {}
        given = vars(arguments)
        settings |= {name: given[name] for name in arguments.settings if name in given}
        # Not beside tokens that were configured: the environment's may be one of a client, with
        # fewer rights than `token` gives.
        token = os.environ.get(TOKEN_VARIABLE)
        if token and "token" not in settings and "tokens" not in settings:
            settings["token"] = token
        config = ServerConfig(**settings)
    except (ValueError, OSError) as error:
        print(f"spark-durable: {error}", file=sys.stderr)
        return 2
    return serve(config)
