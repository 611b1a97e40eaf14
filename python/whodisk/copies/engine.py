"""Runs a copy: submitters, schedule, log. Each operation is logged by the thread that made it."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from whodisk.copies import specification
from whodisk.copies.base import CopyError, Link, Logger, Method, Operation
from whodisk.copies.local import Local
from whodisk.copies.smb import Remote
from whodisk.copies.specification import Specification

#: Between the moment at which all submitters are connected and the first operation.
LEAD_NS = 2_000_000
#: Files that a run leaves in its scratch folder.
LOG, ANSWERS, OUTCOME = "copy.log", "answers.json", "outcome.json"


@dataclass
class Stream:
    """A part of the file. Its submitters take its blocks in order."""

    next_bytes: int
    end_bytes: int

    def take(self, block_bytes: int) -> tuple[int, int] | None:
        """The next block: offset and size."""
        if self.next_bytes >= self.end_bytes:
            return None
        at, size = self.next_bytes, min(block_bytes, self.end_bytes - self.next_bytes)
        self.next_bytes += size
        return at, size


class Run:
    """One run of a specification."""

    def __init__(self, spec: Specification) -> None:
        self.spec = spec
        self.method: Method = Remote(spec) if spec.is_remote else Local(spec)
        self.lock = threading.Lock()
        self.logs: list[Logger] = []
        #: Bytes of this pass that are at the destination.
        self.copied_bytes = 0
        self.failed = ""
        #: Those that began: `start_ns`, `end_ns`, `copied_bytes`.
        self.passes: list[dict[str, int]] = []
        self.slot = 0
        self.begin_ns = 0
        self.end_ns: int | None = None

    def go(self) -> dict[str, Any]:
        """Prepares, copies, checks; gives what became of it. Raises CopyError if it could not begin."""
        spec = self.spec
        try:
            size_bytes = self.method.prepare()
        except OSError as error:
            raise CopyError(f"cannot lay out the files of the copy: {error}") from None
        different: int | None = None
        for number in range(spec.passes):
            self.copied_bytes = 0
            self._one_pass(size_bytes, is_first=number == 0)
            if self.failed or self.copied_bytes < size_bytes or self._is_over():
                break
        passes = self.passes
        seconds = sum(each["end_ns"] - each["start_ns"] for each in passes) / 1e9
        complete = not self.failed and all(each["copied_bytes"] == size_bytes for each in passes)
        if complete and spec.verify:
            try:
                different = self.method.difference(size_bytes)
            except (CopyError, OSError) as error:
                complete, self.failed = False, f"the files could not be compared: {error}"
            if different is not None:
                complete, self.failed = False, f"the files differ from byte {different} on"
        if not complete and not self.failed:
            self.failed = f"{self.copied_bytes} of {size_bytes} bytes were copied until the time was over"
        return {
            "complete": complete,
            "verified": complete and spec.verify,
            "why_not": self.failed or None,
            "size_bytes": size_bytes,
            "passes": passes,
            "copied_bytes_per_s": sum(each["copied_bytes"] for each in passes) / seconds if seconds else None,
        }

    def _is_over(self) -> bool:
        return self.end_ns is not None and time.monotonic_ns() >= self.end_ns

    def _one_pass(self, size_bytes: int, *, is_first: bool) -> None:
        spec = self.spec
        blocks = -(-size_bytes // spec.block_bytes)
        # Streams begin at whole blocks.
        bounds = [min(size_bytes, blocks * n // spec.streams * spec.block_bytes) for n in range(spec.streams)]
        streams = [Stream(*each) for each in zip(bounds, [*bounds[1:], size_bytes], strict=True)]
        begun: list[int] = []

        def begin() -> None:
            # Before any submitter goes on: the thread that waits for them may be late.
            begun.append(time.monotonic_ns())
            if is_first:
                self.begin_ns = begun[0] + LEAD_NS
                self.end_ns = (
                    None if spec.duration_s is None else self.begin_ns + round(spec.duration_s * 1e9)
                )

        ready = threading.Barrier(spec.streams * spec.queue_depth + 1, begin)
        threads = [
            threading.Thread(
                target=self._submit, args=(stream, ready), name=f"copy-{number}-{slot}", daemon=True
            )
            for number, stream in enumerate(streams)
            for slot in range(spec.queue_depth)
        ]
        for thread in threads:
            thread.start()
        try:
            ready.wait()
        except threading.BrokenBarrierError:
            # A submitter may have begun, and failed, before this thread heard of it.
            if not begun:
                for thread in threads:
                    thread.join()
                raise CopyError(self.failed) from None
        try:
            for thread in threads:
                thread.join()
            if spec.sync and not self.failed:
                self._sync()
        finally:
            self.passes.append(
                {"start_ns": begun[0], "end_ns": time.monotonic_ns(), "copied_bytes": self.copied_bytes}
            )

    def _submit(self, stream: Stream, ready: threading.Barrier) -> None:
        """The body of a submitter."""
        log = self._log()
        link: Link | None = None
        try:
            link = self.method.link()
            ready.wait()
            while not self.failed and not self._is_over():
                with self.lock:
                    block = stream.take(self.spec.block_bytes)
                    due_ns = self._due_ns() if block else 0
                if block is None:
                    return
                if due_ns > time.monotonic_ns():
                    time.sleep((due_ns - time.monotonic_ns()) / 1e9)
                log.due_ns = due_ns
                self._copied(link.copy(*block, log), *block, log)
        except threading.BrokenBarrierError:
            return
        except (CopyError, OSError) as error:
            self._fail(str(error))
            ready.abort()
        except BaseException as error:
            self._fail(f"internal error: {type(error).__name__}: {error}")
            ready.abort()
            raise
        finally:
            if link is not None:
                link.close()

    def _sync(self) -> None:
        log = self._log()
        try:
            link = self.method.link()
        except (CopyError, OSError) as error:
            self._fail(f"sync of the destination: {error}")
            return
        try:
            if not link.sync(log):
                self._fail(f"sync of the destination: {self._words(log)}")
        finally:
            link.close()

    def _due_ns(self) -> int:
        """When the next block is meant to begin; 0 in a closed loop."""
        if self.spec.rate_per_s is None:
            return 0
        self.slot += 1
        return self.begin_ns + int((self.slot - 1) * 1e9 / self.spec.rate_per_s)

    def _log(self) -> Logger:
        log = Logger(threading.get_native_id())
        with self.lock:
            self.logs.append(log)
        return log

    def _copied(self, done: int, offset_bytes: int, size_bytes: int, log: Logger) -> None:
        with self.lock:
            self.copied_bytes += done
        if done < size_bytes:
            self._fail(
                f"{done} of {size_bytes} bytes were copied from byte {offset_bytes} on, then {self._words(log)}"
            )

    @staticmethod
    def _words(log: Logger) -> str:
        last = log.operations[-1]
        status = "" if not last.status else f" (0x{last.status:08X})"
        return f"{last.call}: {last.words or 'nothing was transferred'}{status}"

    def _fail(self, words: str) -> None:
        with self.lock:
            self.failed = self.failed or words

    def operations(self) -> list[Operation]:
        """All of them, by their begin."""
        return sorted((each for log in self.logs for each in log.operations), key=lambda each: each.submit_ns)


def write(operations: Iterable[Operation], outcome: dict[str, Any], folder: Path) -> None:
    """Leaves the log of operations for the case, the answers, and the outcome; each is whole or not there."""
    lines, answers = [], []
    for each in operations:
        late_ns, latency_ns = each.submit_ns - each.due_ns, each.end_ns - each.due_ns
        place = f"{each.offset_bytes} {each.asked_bytes} {each.error}"
        lines.append(f"{each.kind} {each.due_ns} {latency_ns} {each.tid} {late_ns} {place}\n")
        answers.append(json.dumps(asdict(each)) + "\n")
    for name, text in ((ANSWERS, "".join(answers)), (OUTCOME, json.dumps(outcome)), (LOG, "".join(lines))):
        part = folder / f"{name}.part"
        part.write_text(text, encoding="utf-8")
        part.replace(folder / name)


def summary(operations: list[Operation]) -> list[dict[str, Any]]:
    """Per call: how many, how many failed or brought less than asked, bytes asked and transferred, statuses."""
    rows = []
    for call in sorted({each.call for each in operations}):
        own = [each for each in operations if each.call == call]
        statuses = Counter(f"0x{each.status:08X}" for each in own if each.status)
        rows.append(
            {
                "call": call,
                "operations": len(own),
                "failed": sum(each.error != 0 for each in own),
                "short": sum(not each.error and each.transferred_bytes < each.asked_bytes for each in own),
                "asked_bytes": sum(each.asked_bytes for each in own),
                "transferred_bytes": sum(each.transferred_bytes for each in own),
                "statuses": dict(statuses),
                "token_age_ns_max": max((each.token_age_ns or 0 for each in own), default=0) or None,
            }
        )
    return rows


def main() -> None:
    """The process that is recorded: one word of JSON with the specification's path and a folder for what is left."""
    options = json.loads(sys.argv[1])
    folder = Path(options["folder"])
    run: Run | None = None
    try:
        run = Run(specification.read(Path(options["specification"])))
        outcome = run.go()
    except CopyError as error:
        outcome = {"complete": False, "why_not": str(error), "passes": run.passes if run else []}
    operations = run.operations() if run else []
    outcome["calls"] = summary(operations)
    write(operations, outcome, folder)
    if not outcome["complete"]:
        sys.exit(1)
