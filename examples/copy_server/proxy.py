#!/usr/bin/env python3
"""A TCP proxy on 127.0.0.1 that adds network delay, or cuts connections: what `tc netem` does, where the kernel has none.

    python examples/copy_server/proxy.py --to 127.0.0.1:4455 --listen 4460 --delay 1ms

Prints the line of a specification for it. Every byte comes DELAY later, in each direction, so that a round trip takes 2 x DELAY more; how many bytes per second go through is not
limited. Serves until Ctrl-C.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import re
import signal

PIECE_BYTES = 1 << 18
UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0}


class Proxy:
    """Forwards to one server. Bytes in flight are held in memory."""

    def __init__(
        self, host: str, port: int, delay_s: float = 0.0, cut_after_bytes: int | None = None
    ) -> None:
        self.to, self.delay_s, self.cut_after_bytes = (host, port), delay_s, cut_after_bytes

    async def serve(self, port: int = 0) -> asyncio.Server:
        """Listens; port 0: one that is free."""
        return await asyncio.start_server(self._connection, "127.0.0.1", port, limit=PIECE_BYTES)

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            from_server, to_server = await asyncio.open_connection(*self.to, limit=PIECE_BYTES)
        except OSError:
            writer.close()
            return
        ways = (
            self._pump(reader, to_server, self.cut_after_bytes),
            self._pump(from_server, writer, None),
        )
        # The end of one way is the end of both, as with a cable.
        await asyncio.wait([asyncio.ensure_future(way) for way in ways], return_when=asyncio.FIRST_COMPLETED)
        for end in (writer, to_server):
            end.close()

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, left_bytes: int | None
    ) -> None:
        loop = asyncio.get_running_loop()
        waiting: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
        sender = asyncio.ensure_future(self._send(waiting, writer))
        with contextlib.suppress(OSError):
            while data := await reader.read(PIECE_BYTES):
                if left_bytes is not None and (left_bytes := left_bytes - len(data)) <= 0:
                    break
                waiting.put_nowait((loop.time() + self.delay_s, data))
        waiting.put_nowait((loop.time() + self.delay_s, b""))
        await sender

    @staticmethod
    async def _send(waiting: asyncio.Queue[tuple[float, bytes]], writer: asyncio.StreamWriter) -> None:
        loop = asyncio.get_running_loop()
        with contextlib.suppress(OSError):
            while (entry := await waiting.get())[1]:
                if (early_s := entry[0] - loop.time()) > 0:
                    await asyncio.sleep(early_s)
                writer.write(entry[1])
                await writer.drain()


def seconds(text: str) -> float:
    """0.001 of `1ms`. Raises argparse.ArgumentTypeError."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(us|ms|s)", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"expected a time with its unit such as 1ms, found {text!r}")
    return float(match[1]) * UNITS[match[2]]


async def _until_ended(proxy: Proxy, port: int) -> None:
    ended = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    async with await proxy.serve(port) as server:
        print(f'server = "127.0.0.1:{server.sockets[0].getsockname()[1]}"', flush=True)
        await ended.wait()


def main() -> None:
    """Serves until it is interrupted."""
    parser = argparse.ArgumentParser(description="A TCP proxy with delay, on 127.0.0.1 only")
    parser.add_argument("--to", required=True, metavar="HOST:PORT")
    parser.add_argument("--listen", type=int, default=0, metavar="PORT", help="0: one that is free")
    parser.add_argument("--delay", type=seconds, default=0.0, help="of every byte, in each direction")
    parser.add_argument(
        "--cut-after", type=int, metavar="BYTES", help="end a connection after so many bytes of the client"
    )
    options = parser.parse_args()
    host, _, port = options.to.rpartition(":")
    proxy = Proxy(host, int(port), options.delay, options.cut_after)
    asyncio.run(_until_ended(proxy, options.listen))


if __name__ == "__main__":
    main()
