"""Numbers as people read them. Only for sentences; data keep their units in nanoseconds and bytes."""

from __future__ import annotations

import math
import re


def duration(ns: float) -> str:
    """``30.1 ms`` out of nanoseconds; three significant digits."""
    value = abs(ns)
    for limit, divisor, unit in ((999.5, 1, "ns"), (999.5e3, 1e3, "us"), (999.5e6, 1e6, "ms")):
        if value < limit:
            return f"{significant(ns / divisor)} {unit}"
    return f"{significant(ns / 1e9)} s"


def seconds(ns: float) -> str:
    """``12.5 s``: a moment since the begin, out of nanoseconds; of samples, milliseconds are fine enough."""
    return f"{significant(round(ns / 1e9, 3), 12)} s"


def time_of_day(ns: float, places: int | None = None) -> str:
    """``12:00:00``, ``12:00:00.5``: a moment out of nanoseconds since midnight; with `places` as many digits behind the point. Past midnight the day is counted."""
    whole, rest_ms = divmod(round(ns / 1e6), 1000)
    days, second = divmod(whole, 86_400)
    digits = f"{rest_ms:03}"
    fraction = digits.rstrip("0") if places is None else digits[:places]
    day = f" (day {days + 1})" if days > 0 else ""
    return (
        f"{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}{'.' if fraction else ''}{fraction}{day}"
    )


def moment(ns: float, *, zero_of_day_ns: int | None, places: int | None = None) -> str:
    """A moment of a case: its time of day, where a log has these and no date (`zero_of_day_ns`: what it was at 0 s), else since the begin; with `places`
    where rows must be told apart."""
    if zero_of_day_ns is not None:
        return time_of_day(zero_of_day_ns + ns, places)
    return seconds(ns) if places is None else f"{ns / 1e9:.{places}f} s"


def significant(value: float, digits: int = 3) -> str:
    """A number with `digits` significant digits, without exponent, thousands separated."""
    if value == 0 or not math.isfinite(value):
        return "0" if value == 0 else str(value)
    places = max(0, digits - 1 - math.floor(math.log10(abs(value)) + 1e-12))
    text = f"{round(value, places):,.{places}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def count(number: float) -> str:
    """``1,204,331``."""
    return f"{round(number):,}"


def things(number: float, singular: str, plural: str | None = None) -> str:
    """``1 read``, ``412 reads``."""
    return f"{count(number)} {singular if round(number) == 1 else plural or singular + 's'}"


def percent(share: float) -> str:
    """``7.1 %`` of something; what is not all of it is never printed as 100 %."""
    value = 100 * share
    if 99.0 < value < 100.0:
        return f"{significant(min(value, 99.9))} %"
    return f"{significant(value, 2 if value < 10 else 3)} %"


def quantile(share: float) -> str:
    """The same of a part that is promised: near 100 % with the digits that it takes to show the difference, rounded down."""
    value = 100 * share
    if 99.0 < value < 100.0:
        digits = min(7, max(1, math.ceil(-math.log10(100.0 - value)) + 1))
        floored = math.floor(value * 10**digits) / 10**digits
        return f"{floored:.{digits}f}".rstrip("0").rstrip(".") + " %"
    return percent(share)


def rate(per_second: float) -> str:
    """``18,700`` operations per second, three significant digits."""
    return significant(per_second)


def size(size_bytes: float) -> str:
    """``128 KiB``."""
    for power, unit in enumerate(("B", "KiB", "MiB", "GiB")):
        if size_bytes < 1024 ** (power + 1):
            return f"{significant(size_bytes / 1024**power)} {unit}"
    return f"{significant(size_bytes / 1024**4)} TiB"


#: What a culprit is called, by its kind.
_ACCUSED = {
    "stage": "the {} stage",
    "device": "the device {}",
    "vector": "interrupt vector {}",
    "host": "host {}",
    "request_shape": "{}",
    "cache_tier": "the cache tier {}",
    "layout": "the layout ({})",
    "time_pattern": "a pattern in time ({})",
    "process": "the program {}",
    "config": "the setting {}",
    "saturation": "{}",
}


def accused(kind: str, name: str, because_of: str | None) -> str:
    """``the device stage of nvme3``: a culprit as the subject of a sentence."""
    because = because_of or ""
    # Numbers of bytes are for programs.
    name = re.sub(r"\b([0-9]+) bytes\b", lambda found: size(int(found[1])), name)
    said = _ACCUSED.get(kind, f"{kind} {{}}").format(name)
    if kind == "stage" and name == "unknown":
        said = "time that was not recorded"
    if kind == "process" and because.startswith("silence of the submitter"):
        together = threads_together(name)
        several = "(threads " in together or " and " in together
        said = together if together[:1].isdigit() else f"the submitter{'s' if several else ''} {together}"
        if because.endswith("state stopped"):
            # They are the victims.
            said = f"whoever stopped {together}"
    if kind == "process" and because == "was stopped":
        said = f"whoever stopped {name}"
    if kind == "process" and name.startswith("thread "):
        said = name
    if kind == "config" and "_" not in name:
        said = f"the {name}"
    if kind == "request_shape":
        said = _requests(name)
    if (kind, name) == ("host", "hypervisor"):
        said = "the hypervisor"
    if kind == "vector" and not name.isdigit():
        said = f"the interrupts of {name}"
    if kind == "stage" and because.startswith("process:"):
        # What others waited for there.
        said = f"the program {because.removeprefix('process:')}"
    # A program works on a device; all else is the device's own.
    place = "on" if kind == "process" else "of"
    return said + (f" {place} {because.removeprefix('device:')}" if because.startswith("device:") else "")


def _requests(shape: str) -> str:
    """``reads of 8.25 MiB``, ``requests of 64 KiB``, ``the alignment of the requests``."""
    if found := re.fullmatch(r"([a-z]+) of (.+)", shape):
        return f"{plural_op(found[1])} of {found[2]}"
    if shape.startswith("size "):
        return f"requests of {shape.removeprefix('size ')}"
    return f"the {shape} of the requests"


def is_or_are(said: str) -> str:
    """The verb behind what `accused` gives."""
    plural = said[:1].isdigit() or re.match(r"the (?:submitters|interrupts) |[a-z]+s of ", said)
    return "are" if plural else "is"


def listed(names: list[str]) -> str:
    """``a, b and c``."""
    if len(names) <= 1:
        return names[0] if names else ""
    return ", ".join(names[:-1]) + " and " + names[-1]


def stopped(where: str) -> str:
    """What stopped a thread, by where it stood: the kernel's freezer, of control groups or before a suspend (kernel/freezer.c), else a signal."""
    return "frozen with its control group (freezer)" if by_freezer(where) else "stopped by a signal"


def by_freezer(where: str) -> bool:
    """Whether the kernel's freezer stopped a thread that stood there."""
    return "refrigerator" in where


def some(names: list[str], most: int) -> str:
    """The first `most` names, and how many more there are."""
    hidden = len(names) - most
    return ", ".join(names[:most]) + (f" and {hidden} more" if hidden > 0 else "")


def threads(pairs: set[tuple[int, str]]) -> str:
    """Threads, given as (tid, name): ``fio (thread 41) and fio (thread 42)``, ``4 submitting threads of fio``."""
    if len(pairs) <= 3:
        return listed([f"{comm or 'thread'} (thread {tid})" for tid, comm in sorted(pairs)])
    names = sorted({comm for _, comm in pairs})
    whose = f" of {names[0]}" if len(names) == 1 and names[0] else f" ({names[0]} to {names[-1]})"
    return f"{len(pairs)} submitting threads{whose}"


def cleared(names: list[str]) -> str:
    """``device loop0; stages fs, queue`` for ``device:loop0``, ``stage:fs``, ``stage:queue``: what a verdict clears, by kind."""
    by_kind: dict[str, list[str]] = {}
    for name in names:
        kind, _, rest = name.partition(":")
        by_kind.setdefault(kind, []).append(rest)
    return "; ".join(f"{kind}{'s' if len(of) > 1 else ''} {', '.join(of)}" for kind, of in by_kind.items())


def processes(pids: tuple[int, ...]) -> str:
    """``process 41``, ``processes 41 and 42``, ``12 processes``."""
    if len(pids) > 3:
        return f"{len(pids)} processes"
    return f"{'process' if len(pids) == 1 else 'processes'} {listed([str(pid) for pid in pids])}"


def threads_together(said: str) -> str:
    """``fio (threads 41 and 42)`` for ``fio (thread 41) and fio (thread 42)``; threads of different names stay as they are."""
    found = re.findall(r"(?:^|, | and )(.+?) \(thread ([0-9]+)\)", said)
    if len(found) < 2 or len({comm for comm, _ in found}) > 1:
        return said
    return f"{found[0][0]} (threads {listed([tid for _, tid in found])})"


#: What a thread waits for, or sleeps in, that wants to write to a frozen file system (`sb_start_write`); a call on storage seldom takes another such lock.
AS_WHEN_FROZEN = ("per-CPU read lock", "percpu_rwsem_wait")
#: What a thread sleeps in until another one gives up its lock on a file (fcntl, flock).
AS_WHEN_LOCKED = (
    "fcntl_setlk",
    "flock_lock_inode_wait",
    "locks_lock_inode_wait",
    "posix_lock_inode_wait",
)
#: What a thread sleeps in until a program that watches files has permitted what it does (FAN_OPEN_PERM and the like).
AS_WHEN_WATCHED = ("fanotify_handle_event", "fanotify_get_response")
#: What a thread waited for where the kernel gives a name, not a function.
_WAITED_FOR = {
    "io": "I/O",
    "mutex": "a mutex",
    "read lock": "a read lock",
    "write lock": "a write lock",
    "rt mutex": "an rt mutex",
    "page under writeback": "the writeback of a page",
    "rq_qos_wait": "a turn to write (writeback throttling)",
    "fdget_pos": "the position of an open file that threads share",
    **dict.fromkeys(AS_WHEN_WATCHED, "a program that must permit it (fanotify: a virus scanner, an auditor)"),
    **dict.fromkeys(AS_WHEN_FROZEN, "a per-CPU read lock, as writers do while their file system is frozen"),
}


#: What a thread sleeps in until something comes from outside: a client, a server, a signal, a moment.
AS_WHEN_IDLE = (
    "do_epoll_wait",
    "ep_poll",
    "do_poll",
    "poll_schedule_timeout",
    "do_select",
    "inet_csk_accept",
    "sk_wait_data",
    "wait_woken",
    "__skb_wait_for_more_packets",
    "do_sigtimedwait",
    "__x64_sys_pause",
)
#: What a call that moves data sleeps in until whoever is at the other end of a connection, or of a pipe, takes or sends some (net/core/stream.c, net/unix/af_unix.c, fs/pipe.c).
AS_WHEN_PEER = (
    "wait_woken",
    "sk_stream_wait_memory",
    "sk_wait_data",
    "sock_alloc_send_pskb",
    "unix_wait_for_peer",
    "unix_stream_data_wait",
    "pipe_read",
    "pipe_write",
    "anon_pipe_read",
    "anon_pipe_write",
    "pipe_wait_readable",
    "pipe_wait_writable",
)
#: What a thread sleeps in until every CPU has let go of what it may still look at (RCU): when the table of a process's open files grows, say. No storage is waited for.
AS_WHEN_RCU = (
    "expand_files",
    "synchronize_rcu",
    "synchronize_rcu_normal",
    "synchronize_rcu_expedited",
    "__wait_rcu_gp",
    "synchronize_srcu",
    "__synchronize_srcu",
)
#: What a thread sleeps in until another one of its program wakes it, or a time that it chose is over.
AS_WHEN_WOKEN = ("futex_do_wait", "futex_wait_queue", "futex_wait_queue_me")
#: What it sleeps in for a time that it chose, and nobody ends before.
AS_WHEN_CHOSEN = ("hrtimer_nanosleep", "do_nanosleep")
#: What it waits for in other functions of the kernel that have little to do with storage.
_UNTIL = {
    **dict.fromkeys(AS_WHEN_WOKEN, "until woken by another thread, for a lock or for work"),
    **dict.fromkeys(
        AS_WHEN_RCU, "until all CPUs have let go of it (RCU), as when the table of open files grows"
    ),
    **dict.fromkeys(AS_WHEN_CHOSEN, "for a time that the program chose"),
    **dict.fromkeys(
        ("anon_pipe_read", "pipe_read", "pipe_wait_readable"), "until a pipe has something to read"
    ),
    **dict.fromkeys(("anon_pipe_write", "pipe_write", "pipe_wait_writable"), "until a pipe has room"),
    "do_wait": "until a child process ends",
    **dict.fromkeys(AS_WHEN_LOCKED, "until another one gives up its lock on the file"),
    **dict.fromkeys(("__do_semtimedop", "do_semtimedop"), "until another one raises a semaphore"),
    **dict.fromkeys(AS_WHEN_IDLE, "until something comes from outside, or a timer"),
}


def function(cause: str) -> str:
    """A function of the kernel without what its compiler appended: ``do_poll`` for ``do_poll.constprop.0``."""
    return cause.partition(".")[0]


def asleep(cause: str) -> str:
    """``in do_wait, until a child process ends``, ``waiting for a mutex``: how a thread sleeps."""
    if cause in _WAITED_FOR:
        return f"waiting for {_WAITED_FOR[cause]}"
    until = _UNTIL.get(function(cause))
    return f"in {function(cause)}, {until}" if until else f"in {function(cause)}"


def asleep_alone(cause: str) -> str:
    """The same of a sleep that no other thread ended."""
    if function(cause) in AS_WHEN_WOKEN:
        return f"in {function(cause)}, until a time that it chose was over"
    return asleep(cause)


def slept(cause: str) -> str:
    """``waited for a mutex``, ``slept in wait_current_trans``: what a thread that was off the CPU did."""
    return f"waited for {_WAITED_FOR[cause]}" if cause in _WAITED_FOR else f"slept in {cause}"


def called(names: dict[str, str]) -> str:
    """``dm-0 is vg0-data``: what people call volumes with numbers."""
    return listed([f"{number} is {name}" for number, name in names.items()])


def under_loop(loop: str, file: str, disk: str, busy: float) -> str:
    """What a disk under a loop device did for which part of its time."""
    return f"The file of {loop}, {file}, lies on {disk}, which was at work for {percent(busy)} of that time"


def held_by_volume(volume: str, members: tuple[str, ...]) -> str:
    """What a volume did with a request that it did not hand on."""
    return f"the volume {volume} held its request, with nothing in flight in {listed(list(members))}"


#: What a sentence begins with: a capital, a number, or a name like nvme0n1 ...
_BEGIN = r"\s+(?=[A-Z0-9\"'(]|[a-z]+\d)"
#: ... behind the end of another: a word or a number, not a single letter.
_END = re.compile(rf"(?<=[^\W_]{{2}}[.!?]){_BEGIN}|(?<=[)%][.!?]){_BEGIN}|(?<=\s\d[.!?]){_BEGIN}")


def sentences(text: str) -> list[str]:
    """The sentences of a text."""
    return [part for part in (part.strip() for part in _END.split(text)) if part]


def without_consequences(claim: str) -> list[str]:
    """What a finding claims, and each of the consequences that stand behind it."""
    return claim.split(" Consequence: ")


#: Where an s is not enough.
PLURALS = {
    "flush": "flushes",
    "other": "other operations",
    "mixed": "mixed operations",
    "copy": "copies",
    "truncate": "truncations",
    "allocate": "allocations",
    "fault": "page faults",
    "drop": "cache drops",
    "lookup": "lookups",
    "list": "listings of folders",
    "attribute": "changes of attributes",
}


def plural_op(op: str) -> str:
    """``reads``, ``flushes``: the plural of an operation kind."""
    return PLURALS.get(op, op + "s")


def stage(name: str) -> str:
    """A stage as printed, those that a log cannot tell apart by the first and the last: `fs+queue+device+interrupt` is `fs to interrupt`."""
    parts = [part.split("+") for part in name.split(" or ")]
    return " or ".join(f"{part[0]} to {part[-1]}" if len(part) > 2 else "+".join(part) for part in parts)


def joined(sentences: list[str]) -> str:
    """Sentences without capitals as one text; the first stands behind a name and a colon."""
    return " ".join([sentences[0], *(text[0].upper() + text[1:] for text in sentences[1:])])


def in_use(choices: str) -> str:
    """The one that is in use out of the kernel's '[none] mq-deadline'."""
    return choices.partition("[")[2].partition("]")[0] or choices
