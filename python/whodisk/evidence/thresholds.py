"""Every threshold of what happened and of what the host is (`evidence`, `machine`); what a row is stands in `whodisk.reading.thresholds`."""

from __future__ import annotations

import math

from whodisk.reading.thresholds import CHOSEN, DESIGN_8, row

# backlog
BACKLOG_APART_MIN = row(
    "BACKLOG_APART_MIN",
    100,
    "operations",
    CHOSEN,
    "Fewer operations apart from all backlogs do not show how long one takes without a backlog.",
)

# main_program
COMMAND_SHARE = row(
    "COMMAND_SHARE",
    0.05,
    "share",
    CHOSEN,
    "The recorded command is looked at if it caused this part of what was in flight.",
)

# residents
RESIDENT_BINS = row("RESIDENT_BINS", 20, "parts of the recording", CHOSEN, "Who stayed is seen in this many.")
RESIDENT_PRESENT_MIN = row(
    "RESIDENT_PRESENT_MIN",
    0.8,
    "share of these",
    CHOSEN,
    "A program stayed if it had calls under way in this part of them: it may have been held for the rest.",
)
RESIDENTS_SHARE_MIN = row(
    "RESIDENTS_SHARE_MIN",
    0.25,
    "share of the time of all calls",
    CHOSEN,
    "Programs that stayed are judged alone if they had this much: daemons that write a line now and then are not what a machine is there for.",
)
PASSER_BY_MIN = row(
    "PASSER_BY_MIN",
    0.02,
    "share of the time of all calls, or of all requests",
    CHOSEN,
    "Programs that came or left count if they had this much together.",
)

# dirtied_before
DIRTIED_BEFORE_MIN = row(
    "DIRTIED_BEFORE_MIN",
    64 << 20,
    "bytes",
    CHOSEN,
    "Less than that, and less than half of all that flushers wrote, may be anybody's.",
)
DIRTY_AGE_NS = row(
    "DIRTY_AGE_NS",
    35_000_000_000,
    "ns",
    "vm.dirty_expire_centisecs and vm.dirty_writeback_centisecs, 30 and 5 s by default",
    "What a program makes dirty is written out this much later at the latest.",
)

# partners
PARTNER_WAKES_MIN = row(
    "PARTNER_WAKES_MIN",
    50,
    "sleeps",
    CHOSEN,
    "A program works with the judged one if it ended this many of its sleeps ...",
)
PARTNER_WAKES_PART_MIN = row(
    "PARTNER_WAKES_PART_MIN",
    0.05,
    "share",
    "pgbench and sysbench beside their servers: 64 to 81 % in four recordings; CPU hogs beside them: none",
    "... and this part of those that any program ended.",
)
PARTNER_OPERATIONS_MIN = row(
    "PARTNER_OPERATIONS_MIN",
    0.05,
    "share of the time of all operations",
    CHOSEN,
    "A program with this much is what a machine is there for, where all of it was recorded.",
)

# foremost_processes
FOREMOST_PROCESSES_MIN = row(
    "FOREMOST_PROCESSES_MIN",
    0.9,
    "share",
    CHOSEN,
    "Of the processes of one name the verdict names those that had this part of the time together: an idle shell may have the name of three busy ones ...",
)
BESIDE_FOREMOST_MIN = row(
    "BESIDE_FOREMOST_MIN",
    0.1,
    "share of what the first one had",
    CHOSEN,
    "... and whoever had it for this part of what the first of them had.",
)

# host_kinds
KIND_DEVICES = row(
    "KIND_DEVICES",
    math.log(1.3),
    "log ratio",
    CHOSEN,
    "Hosts are no peers if their numbers of devices differ by more ...",
)
KIND_LOAD = row(
    "KIND_LOAD",
    math.log(1.3),
    "log ratio",
    CHOSEN,
    "... or if their load, or its swing, differs by more, without a host between them.",
)
KIND_APART = row(
    "KIND_APART",
    math.log(1.15),
    "log ratio",
    "hosts of the labelled clusters differ by 0.07 from their neighbour at most, and their two behaviours by 0.22",
    "Under one load, hosts behave otherwise if their latency, or its swing, differs by more, without a host between them.",
)
KIND_HOSTS_MIN = row(
    "KIND_HOSTS_MIN",
    5,
    "hosts",
    CHOSEN,
    "Hosts that behave alike form a kind if there are at least this many ...",
)
KIND_HOSTS_PART = row(
    "KIND_HOSTS_PART",
    0.15,
    "share",
    CHOSEN,
    "... and they are at least this part of the hosts with their load.",
)
KIND_FEW_PART = row(
    "KIND_FEW_PART",
    0.25,
    "share",
    CHOSEN,
    "Up to this part of them, those that behave otherwise are a few odd ones; more may be of another kind, and nobody knows.",
)

# late_threads
LATE_INSIDE_MIN = row(
    "LATE_INSIDE_MIN",
    0.5,
    "share",
    CHOSEN,
    "This part of an operation's lateness must lie in one time in which its thread was held up.",
)
TAKEN_WAIT_MIN_NS = row(
    "TAKEN_WAIT_MIN_NS",
    1_000_000,
    "ns",
    CHOSEN,
    "Shorter waits to be taken are not looked for in calls of other threads: those of many threads end at any moment.",
)
TAKEN_SOON_MAX = row(
    "TAKEN_SOON_MAX",
    0.05,
    "share",
    CHOSEN,
    "Another thread of the program was to take an operation if what held that thread ended by this part of the wait before it.",
)

# links
FLUSH_LOOKED_UP_MAX = row(
    "FLUSH_LOOKED_UP_MAX",
    20_000,
    "operations",
    CHOSEN,
    "At most this many operations have their flush commands looked up; of more, the first ones.",
)
LINK_LEVELS = row(
    "LINK_LEVELS",
    4,
    "levels",
    CHOSEN,
    "Links from an operation to the bottom: to its system call, to the volume, to the drive, and one more.",
)

# peer_comparison
PEER_CHUNKS = row(
    "PEER_CHUNKS",
    84,
    "chunks",
    CHOSEN,
    "A recording is divided into this many chunks: neighbouring blocks are not independent, chunks nearly are.",
)
PEER_BLOCKS_MIN = row("PEER_BLOCKS_MIN", 8, "blocks", CHOSEN, "Fewer time blocks than this say nothing.")
LEVEL_Z_MIN = row(
    "LEVEL_Z_MIN",
    4.5,
    "robust standard deviations",
    CHOSEN,
    "A member is always slow if its mean is this far outside the spread of its peers.",
)
AT_TIMES_Z_MIN = row(
    "AT_TIMES_Z_MIN",
    6.5,
    "robust standard deviations",
    CHOSEN,
    "A member is slow at times if its mean and its slow third together (half of the variance each) are this far outside.",
)
AGAIN_Z_MIN = row(
    "AGAIN_Z_MIN",
    5.0,
    "robust standard deviations",
    CHOSEN,
    "The same where it swings more than its peers in most parts of the recording: then it was no single bad hour.",
)
PEER_PARTS = row(
    "PEER_PARTS",
    4,
    "parts",
    CHOSEN,
    "A recording is divided into this many parts; in each a member may swing more than its peers.",
)
PEER_PARTS_MIN = row("PEER_PARTS_MIN", 3, "parts", CHOSEN, "It must do so in at least this many parts ...")
PEER_PART_Z_MIN = row(
    "PEER_PART_Z_MIN", 1.0, "robust standard deviations", CHOSEN, "... by at least this much."
)
DAILY_Z_MIN = row(
    "DAILY_Z_MIN",
    4.5,
    "robust standard deviations",
    CHOSEN,
    "What a member must be slower at one time of the day than at others.",
)
PEER_EFFECT_MIN = row(
    "PEER_EFFECT_MIN",
    math.log(1.10),
    "log ratio",
    CHOSEN,
    "A member must be slower by this on average, in its slow third, or at that time of the day.",
)
SPREAD_FLOOR = row(
    "SPREAD_FLOOR",
    0.006,
    "log ratio",
    CHOSEN,
    "Identical members are never taken to be more alike than this.",
)
SPREAD_FLOOR_FEW = row("SPREAD_FLOOR_FEW", 0.03, "log ratio", CHOSEN, "The same where there are few members.")
FLEET_MIN = row("FLEET_MIN", 8, "members", CHOSEN, "From this many members on, their own spread is used.")
REFERENCE_RANK = row(
    "REFERENCE_RANK",
    1 / 3,
    "share",
    CHOSEN,
    "The fast part of a group shows what is possible: members up to PEER_EFFECT_MIN above the one at this rank.",
)
REFERENCE_LOAD_MIN = row(
    "REFERENCE_LOAD_MIN",
    math.log(0.7),
    "log ratio",
    CHOSEN,
    "A member with less than this part of the usual load shows nothing.",
)
ROLE_HOSTS_MIN = row(
    "ROLE_HOSTS_MIN",
    8,
    "hosts",
    CHOSEN,
    "A member's name is a role if at least this many hosts have a member of that name.",
)
ROLE_PART_MIN = row(
    "ROLE_PART_MIN",
    0.35,
    "share of the hosts",
    CHOSEN,
    "What members with one role reach on this part of the hosts is how the role is; of labelled clusters, up to 0.29 have a slow drive in one slot.",
)
ROLE_SMALL_MAX = row(
    "ROLE_SMALL_MAX",
    math.log(1.35),
    "log ratio",
    CHOSEN,
    "... but no more than this, unless half of the hosts have it: drives twice as slow in one slot of five hosts of twelve are slow drives.",
)
BLOCK_CLIP = row(
    "BLOCK_CLIP",
    0.5,
    "log ratio",
    CHOSEN,
    "One block counts for no more than this: a single bad moment is no slow member.",
)
SLOW_BLOCK = row(
    "SLOW_BLOCK",
    math.log(1.08),
    "log ratio",
    CHOSEN,
    "Blocks this far above the peers count as slow when episodes are reported.",
)
PEER_ROUNDS = row(
    "PEER_ROUNDS", 999, "rounds", CHOSEN, "Rounds in which members are exchanged with their peers."
)

# outside_calls
OUTSIDE_CALLS_MIN = row(
    "OUTSIDE_CALLS_MIN",
    0.05,
    "share of the run",
    CHOSEN,
    "Waits for storage outside of the calls that are recorded keep a case from being healthy from this part of the run on, and if they are longer than all calls together.",
)

# written_for
DIRTIED_MIN = row(
    "DIRTIED_MIN",
    1 << 20,
    "bytes",
    CHOSEN,
    "For whom the kernel writes is asked of programs that wrote this much through the page cache.",
)

PLUGGED_NS = row(
    "PLUGGED_NS",
    2_000_000,
    "ns",
    CHOSEN,
    "A request may leave its thread's plug this long after the thread is done with the file.",
)

# cache_drops
DROPS_MAX = row(
    "DROPS_MAX",
    1000,
    "calls",
    CHOSEN,
    "Calls that drop pages from the page cache, at most: each is compared with each piece of its file that was fetched again.",
)

# page_cache
GROUP_FULL_MIN = row(
    "GROUP_FULL_MIN",
    0.9,
    "share",
    CHOSEN,
    "A control group is at its limit of memory if it used this part of it at some look: the kernel takes back some pages more than it has to.",
)
REFAULTED_MIN = row(
    "REFAULTED_MIN",
    0.5,
    "share",
    CHOSEN,
    "A limit evicts what is read again if this part of what disks read had been in memory, and as much was evicted meanwhile; it is the limit of the group "
    "that has this part of what was read again.",
)

# presence
PRESENCE_BINS = row(
    "PRESENCE_BINS", 400, "bins", CHOSEN, "Time bins in which something is there or not, at most."
)
PRESENCE_OPERATIONS_PER_BIN = row(
    "PRESENCE_OPERATIONS_PER_BIN", 10, "operations", CHOSEN, "Operations per bin on average."
)
PRESENCE_BINS_MIN = row("PRESENCE_BINS_MIN", 40, "bins", CHOSEN, "Fewer bins show nothing.")
PRESENCE_PART_MIN = row(
    "PRESENCE_PART_MIN", 0.01, "share", CHOSEN, "Something must be there for this part of the time."
)
PRESENCE_PART_MAX = row(
    "PRESENCE_PART_MAX",
    0.85,
    "share",
    CHOSEN,
    "Something must be there for no more than this part of the time: what is always there has no baseline.",
)
PRESENCE_TIMES_MIN = row(
    "PRESENCE_TIMES_MIN", 3, "times", CHOSEN, "Something must come at least this many times."
)
PRESENCE_ROUNDS = row(
    "PRESENCE_ROUNDS",
    1999,
    "rounds",
    CHOSEN,
    "Rounds in which the times of presence are put in another order, at other distances.",
)

# sampled_series
SAMPLES_PER_BLOCK = row(
    "SAMPLES_PER_BLOCK",
    20,
    "samples",
    CHOSEN,
    "Samples of one block: their median is robust, and a slow half hour still fills several blocks.",
)
LONG_BLOCK_NS = row(
    "LONG_BLOCK_NS",
    300_000_000_000,
    "ns",
    "the labelled clusters: twenty of their samples, one every 15 s",
    "A block that lasts this long has samples enough, fewer than twenty: a sample of a minute is the mean of four times as many operations as one of 15 s ...",
)
SAMPLES_PER_LONG_BLOCK = row(
    "SAMPLES_PER_LONG_BLOCK",
    5,
    "samples",
    CHOSEN,
    "... but as many as this, so that two bad ones do not make its median.",
)
SAMPLE_OPERATIONS_MIN = row(
    "SAMPLE_OPERATIONS_MIN",
    10,
    "operations",
    CHOSEN,
    "The mean of fewer says little of a device: one seek, or one wait behind a flush, is most of it.",
)
SERIES_BLOCKS_MAX = row("SERIES_BLOCKS_MAX", 4000, "blocks", CHOSEN, "A longer recording has longer blocks.")

# sampled_account
ACCOUNT_WORST_RATIO = row(
    "ACCOUNT_WORST_RATIO",
    20,
    "ratio",
    CHOSEN,
    "A sample that took this many times as long as the device's median one is described.",
)
ACCOUNT_WORST_MIN_NS = row(
    "ACCOUNT_WORST_MIN_NS", 100_000_000, "ns", CHOSEN, "A mean below this is seldom what makes somebody look."
)

# sampled_levels
LASTING_SAMPLES_MIN = row(
    "LASTING_SAMPLES_MIN",
    3,
    "samples",
    CHOSEN,
    "Fewer samples on one side of a change are an episode, or the begin of a run, and no level.",
)
LASTING_RATIO_MIN = row(
    "LASTING_RATIO_MIN",
    1.5,
    "ratio",
    CHOSEN,
    "Levels differ from this on, as slow samples do from usual ones.",
)

# sampled_gaps
LOGS_APART_MIN_NS = row(
    "LOGS_APART_MIN_NS",
    30 * 86_400_000_000_000,
    "ns",
    CHOSEN,
    "Logs of one investigation are of the same days; a month without a sample parts two of them.",
)

# sampled_against
AGAINST_RATIO_MIN = row(
    "AGAINST_RATIO_MIN",
    1.5,
    "ratio",
    CHOSEN,
    "Means of two logs differ by less for many a reason: other work, other sizes.",
)

# stuck_devices
STUCK_SAMPLES_MIN = row(
    "STUCK_SAMPLES_MIN",
    3,
    "samples",
    CHOSEN,
    "Of a single sample a long request may be all; in three on end a device that works ends one.",
)
STUCK_MIN_NS = row(
    "STUCK_MIN_NS",
    60_000_000_000,
    "ns",
    CHOSEN,
    "Fewer samples will do where they are this long: after 30 s the kernel gives a request of most drivers up, or tries it again.",
)
STUCK_BUSY_MIN = row(
    "STUCK_BUSY_MIN",
    0.95,
    "share of the time",
    CHOSEN,
    "A device with a request in flight counts as busy all the time.",
)
STUCK_IN_FLIGHT_MIN = row(
    "STUCK_IN_FLIGHT_MIN",
    0.95,
    "requests",
    CHOSEN,
    "One request in flight all the time, as far as counters are rounded.",
)

# solve
UNDECIDED_MIN = row(
    "UNDECIDED_MIN",
    0.5,
    "share of all latency",
    CHOSEN,
    "Where slow operations that may share a cause, or may do so by chance, are this much of all latency, there is no verdict.",
)
BY_CHANCE_TOLD_MIN = row(
    "BY_CHANCE_TOLD_MIN",
    0.2,
    "share of all latency",
    CHOSEN,
    "From this share on, the first sentence mentions slow operations, also where what they have in common may be chance.",
)

# few_operations
FEW_TOLD = row(
    "FEW_TOLD",
    3,
    "operations",
    CHOSEN,
    "The slowest that the summary lists where there are too few operations for a verdict.",
)

NEXT_TO_NO_IO_MAX = row(
    "NEXT_TO_NO_IO_MAX",
    0.05,
    "share of the recording",
    CHOSEN,
    "Recorded processes with too few operations for a verdict did next to no storage I/O if all of their calls and sleeps for storage together took no more.",
)

# alike_devices
ALIKE_GAP_MAX = row(
    "ALIKE_GAP_MAX",
    math.log(2.0),
    "log ratio",
    CHOSEN,
    "Three disks and more that take longer than all others by this are of another kind: flash beside rotating disks are apart by ten times and more, disks of one kind by a few per cent.",
)
ALIKE_LOAD_MAX = row(
    "ALIKE_LOAD_MAX",
    math.log(2.0),
    "log ratio",
    CHOSEN,
    "Disks of a host that are not known to be members of one volume do the same work only if their load is as near as this.",
)
ALIKE_WORK_MAX = row(
    "ALIKE_WORK_MAX",
    math.log(1.15),
    "log ratio",
    CHOSEN,
    "In stretches of twenty samples members of a mirror or a stripe have loads nearer than this; disks with work of their own differ by half and more (two in 16 storage cells of a database machine).",
)
ALIKE_PART_MAX = row(
    "ALIKE_PART_MAX",
    0.25,
    "share",
    CHOSEN,
    "If more of a host's disks than this are slower than the others, they are of another kind, or do other work.",
)
ALIKE_RATIO_MAX = row(
    "ALIKE_RATIO_MAX",
    4.0,
    "ratio",
    CHOSEN,
    "A disk that takes this many times as long from the begin may be of another kind; most fail-slow drives are slower by less (Lu et al., FAST 2023, table 2).",
)
IDLE_IN_FLIGHT_MAX = row(
    "IDLE_IN_FLIGHT_MAX",
    math.log(0.1),
    "log ratio",
    CHOSEN,
    "A disk with less than this part of its peers' work in flight (Little 1961: rate times latency) is next to idle: the same work would have left at least as much in flight at a slow one.",
)

# device_pace
_PACE = "measured: 80 runs of real programs on a device in memory, with and without a limit of its rate; `python -m tests.accuracy trials`"
PACE_WAITED_MIN = row(
    "PACE_WAITED_MIN",
    0.05,
    "share of the requests",
    CHOSEN,
    "Of a device that is given its requests one by one nothing shows whether it would take more.",
)
PACE_ALONE_HELD_MIN = row(
    "PACE_ALONE_HELD_MIN",
    0.95,
    "share of the time",
    CHOSEN,
    "Requests that a drive serves one by one scatter by more than a tenth; those that are held to a rate do not.",
)
PACE_ALONE_MIN_NS = row(
    "PACE_ALONE_MIN_NS",
    1_000_000,
    "ns",
    CHOSEN,
    "A request that takes less by itself is what a drive needs for one, also where it grows with its bytes; a limit of bytes that holds a lone reader or writer holds it for longer.",
)
PACE_REQUESTS_MIN = row(
    "PACE_REQUESTS_MIN",
    20,
    "requests",
    CHOSEN,
    "Fewer requests of a kind keep no pace that differs from chance.",
)
PACE_REQUESTS_MAX = row(
    "PACE_REQUESTS_MAX",
    400_000,
    "requests",
    CHOSEN,
    "Requests of a device and kind that are looked at, around the middle.",
)
PACE_WIDTH = row(
    "PACE_WIDTH",
    0.1,
    "share",
    CHOSEN,
    "Requests keep the same pace if they lie within this part of it, either way.",
)
PACE_HELD_MIN = row(
    "PACE_HELD_MIN",
    0.5,
    "share",
    _PACE,
    "A device keeps a pace if it did in this part of its time with such requests ...",
)
PACE_FASTER_MAX = row(
    "PACE_FASTER_MAX", 0.1, "share", _PACE, "... and if no more than this part of what it took went faster."
)
PACE_SIZES_MAX = row(
    "PACE_SIZES_MAX",
    6,
    "sizes",
    CHOSEN,
    "Sizes that took most of the time, through each two of which a line is tried.",
)
PACE_TOGETHER = row(
    "PACE_TOGETHER",
    8,
    "requests",
    CHOSEN,
    "Where ends come late and early by turns, requests that waited in line are looked at this many at a time: what one end is late, the next one makes up for.",
)
PACE_BY_TURNS_MAX = row(
    "PACE_BY_TURNS_MAX",
    -0.2,
    "correlation of neighbours",
    CHOSEN,
    "Ends come late and early by turns if the times from end to end of neighbours are correlated by this or less: -0.5 where nothing but their ends varies, 0 where each request takes a time of its own. Ten of 212 kinds of requests in 131 recordings are at or below this; a pace is seen in one of them, the device of which had a limit.",
)
PACE_NEAR_MIN = row(
    "PACE_NEAR_MIN",
    0.9,
    "share of requests",
    CHOSEN,
    "... and this part of them takes half to twice as long by itself as the pace says.",
)
PACE_ARRIVALS_MIN = row(
    "PACE_ARRIVALS_MIN",
    0.95,
    "share of the time",
    CHOSEN,
    "A device that is busy at one pace for this part of the time, under a workload that is never late, takes requests as they come ...",
)
PACE_TURNS_MAX = row(
    "PACE_TURNS_MAX",
    0.2,
    "share of all latency",
    CHOSEN,
    "... if operations wait for their turn for no more than this.",
)
PACE_SIMPLER = row(
    "PACE_SIMPLER",
    0.05,
    "share",
    CHOSEN,
    "A pace by bytes, or by number, is taken if a line through two sizes holds for no more of the time than this.",
)
PACE_BUSY_MAX = row(
    "PACE_BUSY_MAX",
    3.0,
    "times",
    CHOSEN,
    "A request that takes this many times what its size needs waited for something else: a pause.",
)
PACE_SIZES_PART = row(
    "PACE_SIZES_PART",
    0.1,
    "share",
    CHOSEN,
    "Bytes are counted, and not requests, if requests twice as large as the small ones had this part of the time at that pace.",
)
PACE_COVERS_MIN = row(
    "PACE_COVERS_MIN",
    0.5,
    "share",
    CHOSEN,
    "An operation waited for a device at its pace if the device was in this part of its time: overheads are in the rest.",
)
PACE_COVERS_ROOM_MIN = row(
    "PACE_COVERS_ROOM_MIN",
    0.2,
    "share",
    CHOSEN,
    "Where it slept for room in the file system: in this part, for that sleeps by timers of its own behind the requests.",
)
PACE_LONG = row(
    "PACE_LONG",
    10.0,
    "requests",
    CHOSEN,
    "A call that carries no data and takes as long as this many requests may have waited for them, whatever its stages say.",
)

# file servers
FILES_LOOKED_UP_MAX = row(
    "FILES_LOOKED_UP_MAX",
    1_000,
    "operations",
    CHOSEN,
    "Slow operations of which the files are looked up; of more every second, third and so on.",
)

# room
ROOM_ASLEEP_MIN = row(
    "ROOM_ASLEEP_MIN",
    0.5,
    "share",
    CHOSEN,
    "A call waited for room in the file system if its thread slept for that in this part of its time.",
)
ROOM_SEEN_MIN = row(
    "ROOM_SEEN_MIN",
    0.9,
    "share",
    CHOSEN,
    "Sleeps that the recorder did not look into were for room, too, if this part of what it saw in such calls was.",
)

# service_times
SERVICE_REQUESTS_MAX = row(
    "SERVICE_REQUESTS_MAX", 500_000, "requests", CHOSEN, "Requests looked at, the first ones of each disk."
)

# slow_operations
FAMILY_OPERATIONS = row(
    "FAMILY_OPERATIONS",
    30,
    "operations",
    CHOSEN,
    "Fewer operations of a kind say nothing about what is normal.",
)
SLOW_OPERATIONS_MAX = row(
    "SLOW_OPERATIONS_MAX",
    300_000,
    "operations",
    CHOSEN,
    "More slow operations than this are thinned out (by operation id, so always the same ones).",
)
TAIL_BEGIN = row(
    "TAIL_BEGIN", 4.0, "times typical", CHOSEN, "A tail is looked at from here on: less is no outlier."
)
TAIL_KEPT_OPERATIONS_MIN = row(
    "TAIL_KEPT_OPERATIONS_MIN",
    200_000,
    "operations",
    CHOSEN,
    "From here on the tail of a layer is kept for the queries that ask for it, with the longest and some drawn from all ...",
)
TAIL_KEPT_ROWS_MAX = row(
    "TAIL_KEPT_ROWS_MAX", 500_000, "operations", CHOSEN, "... if it is no larger: about 100 MB."
)
KNOCK_ON_SHARE = row(
    "KNOCK_ON_SHARE",
    0.5,
    "share",
    CHOSEN,
    "A wait is a knock-on if something was stuck further down for this part of it.",
)
ORDINARY_WAIT_NS = row(
    "ORDINARY_WAIT_NS",
    10_000_000,
    "ns",
    CHOSEN,
    "A shorter wait, in a stage in which some thread needs a CPU, may just be another thread's turn on it (time slices are a few milliseconds).",
)
SERVED_LATE_MIN = row(
    "SERVED_LATE_MIN",
    0.5,
    "share",
    CHOSEN,
    "What serves a software device must have waited for a CPU during this part of what an operation lost there, or the CPU was not why.",
)
TURNS_PER_OPERATION = row(
    "TURNS_PER_OPERATION",
    8,
    "turns",
    CHOSEN,
    "At most this many threads of a software device, each in its turn on a CPU, work for one operation.",
)
UNLIKE_RATIO = row(
    "UNLIKE_RATIO",
    3.0,
    "times",
    CHOSEN,
    "Operations are no waits for a CPU if they outnumber, by this factor, what the recorded waits of half their length would make ...",
)
UNLIKE_MIN = row("UNLIKE_MIN", 5, "episodes", CHOSEN, "... and there are more than this many.")
UNLIKE_KINDS = row(
    "UNLIKE_KINDS",
    4.0,
    "times",
    CHOSEN,
    "Flush commands, or reads, do not just wait for a CPU if they are late this many times as often as other requests of their device.",
)
LATE_PLACES = row(
    "LATE_PLACES",
    16,
    "parts",
    CHOSEN,
    "Reads of a software device are compared by this many parts of it, as far as reads reach: a part is late by itself if it is UNLIKE_KINDS times as often as others ...",
)
LATE_PLACES_TIMES = row(
    "LATE_PLACES_TIMES",
    16,
    "parts",
    CHOSEN,
    "... at the same time, of this many parts of the time.",
)
LATE_REGION_PLACES = row(
    "LATE_REGION_PLACES",
    4096,
    "parts",
    CHOSEN,
    "The range of a device in which reads are late has edges as exact as this, as far as reads reach.",
)
KIND_PART = row(
    "KIND_PART",
    0.8,
    "share",
    CHOSEN,
    "A request is as late as an operation that waited for it if it took this part of what that lost.",
)
ORDINARY_SHARE = row(
    "ORDINARY_SHARE",
    0.25,
    "share",
    CHOSEN,
    "From this part of a family's slow operations on, ordinary waits are taken for its hump.",
)

# journal_commits
COMMIT_COVERS_MIN = row(
    "COMMIT_COVERS_MIN",
    0.9,
    "share",
    DESIGN_8,
    "A wait in the file system was for a commit of the journal if a commit covers this part of it ...",
)
COMMIT_EPISODES_MIN = row(
    "COMMIT_EPISODES_MIN",
    5,
    "episodes",
    DESIGN_8,
    "... and this holds for at least this many separate waits ...",
)
COMMIT_P_MAX = row(
    "COMMIT_P_MAX",
    0.01,
    "probability",
    DESIGN_8,
    "... and, given the part of the time that commits cover, as many covered waits have at most this probability.",
)

# prefetching
PREFETCH_FILES_TOLD = row(
    "PREFETCH_FILES_TOLD", 5, "files", CHOSEN, "The account lists at most this many files."
)

# more_work
WORK_LINKS_MAX = row(
    "WORK_LINKS_MAX",
    10_000_000,
    "links",
    CHOSEN,
    "The work of operations is counted up to this many links: beyond, it would take longer than all else.",
)
WORK_REQUESTS_MIN = row(
    "WORK_REQUESTS_MIN",
    8,
    "requests",
    CHOSEN,
    "An operation did more than others if it made at least this many ...",
)
WORK_RARE_MAX = row(
    "WORK_RARE_MAX", 0.2, "ratio", CHOSEN, "... and at most this part of its kind made as many."
)
WORK_ALIKE_MIN = row(
    "WORK_ALIKE_MIN",
    5,
    "operations",
    CHOSEN,
    "Where at least this many made about as many requests (the same power of two), their median is what such work takes ...",
)
WORK_LATENCY_MAX = row(
    "WORK_LATENCY_MAX", 2.0, "ratio", CHOSEN, "... and an operation is like them up to this multiple of it."
)
WORK_PACE_MAX = row(
    "WORK_PACE_MAX",
    2.0,
    "ratio",
    CHOSEN,
    "They say nothing if their requests took longer than this multiple of what they take one by one: then the device is slow for all of them.",
)
WORK_GAP_MAX = row(
    "WORK_GAP_MAX",
    0.5,
    "ratio",
    CHOSEN,
    "Of fewer, one in which no request ended for longer than this part of it was held by one of them.",
)

# standstill
STILL_MIN_NS = row(
    "STILL_MIN_NS",
    5_000_000,
    "ns",
    CHOSEN,
    "A CPU that leaves a ready thread alone for this long stands still.",
)
THERE_PART = row(
    "THERE_PART",
    0.9,
    "share",
    CHOSEN,
    "A thread was on that CPU if it waited there for this part of the time, ready or asleep: what would have woken it up stood still, too.",
)

# steal
EXPLAINED_PART = row(
    "EXPLAINED_PART",
    0.5,
    "share",
    CHOSEN,
    "What was late is explained if this part of it was stolen in its time and the sample before and after.",
)

# survey
SURVEY_BLOCKS = row(
    "SURVEY_BLOCKS",
    60,
    "blocks",
    CHOSEN,
    "Time is divided into this many blocks to see whether a stratum was there throughout; each is a bit of a BIGINT, so 62 at most.",
)
TRUSTED_OPERATIONS = row(
    "TRUSTED_OPERATIONS", 100, "operations", CHOSEN, "A stratum is used from this many operations on."
)
TRUSTED_BLOCKS = row(
    "TRUSTED_BLOCKS",
    0.15,
    "share",
    CHOSEN,
    "A stratum is believed that occurs in this part of the blocks: one that only exists inside a few slow episodes says nothing about what is typical.",
)
RATE_ACHIEVED = row(
    "RATE_ACHIEVED", 0.99, "share", CHOSEN, "A fixed rate counts as achieved from this part on."
)
DRAWN_OPERATIONS = row(
    "DRAWN_OPERATIONS", 20_000, "operations", CHOSEN, "Drawn from all to learn what is usual, at most."
)
THINNED_OPERATIONS_MAX = row(
    "THINNED_OPERATIONS_MAX", 1_000_000, "operations", CHOSEN, "More are thinned out for a percentile."
)

# thread_stops
STOP_FELT_AFTER = row(
    "STOP_FELT_AFTER",
    1.0,
    "times its length",
    CHOSEN,
    "Operations that begin at most this long after a stop feel it: those that were due meanwhile.",
)
STOP_FELT_AFTER_MAX = row(
    "STOP_FELT_AFTER_MAX",
    8.0,
    "times its length",
    CHOSEN,
    "Operations that begin later feel it for at most this long, until one is as quick as is typical again: what had piled up takes its time where there is much to do.",
)
STOP_OWES_MAX = row(
    "STOP_OWES_MAX",
    2.0,
    "times its length",
    CHOSEN,
    "What an operation owes to stops is at most this: itself, and what waited in front of it.",
)
STOP_UNLIKE = row(
    "STOP_UNLIKE",
    1.25,
    "ratio",
    CHOSEN,
    "The operations that no stop touched are no sample of all where their 99th percentile differs by this factor from that of all without what a stop kept from being taken.",
)
STOP_APART_MIN = row(
    "STOP_APART_MIN",
    0.5,
    "share",
    CHOSEN,
    "Fewer operations that no stop touched are a choice: where most are touched, the others may be those that anything else spared, too.",
)
STOP_ROUNDS = row("STOP_ROUNDS", 1999, "rounds", CHOSEN, "Rounds in which stops are put at random moments.")
STOP_TESTED_MAX = row("STOP_TESTED_MAX", 2_000, "operations", CHOSEN, "Operations that the test looks at.")

# time_lost
ONE_LOOK_NS = row(
    "ONE_LOOK_NS",
    100_000_000,
    "ns",
    CHOSEN,
    "The sampler reads the host's counters and those of control groups within this time, once a second.",
)
BUSY_PART_MIN = row(
    "BUSY_PART_MIN",
    0.1,
    "share",
    CHOSEN,
    "A thread with operations that take less than this part of what the busiest one's take is not what the workload waits for: what a limit costs is a part of the others' time.",
)
LOSS_BLOCKS = row(
    "LOSS_BLOCKS",
    200,
    "blocks",
    CHOSEN,
    "Blocks of time; neighbouring ones in which something was lost are one window, the unit of evidence.",
)
FOREMOST_MIN = row(
    "FOREMOST_MIN",
    0.9,
    "share of the time of the program's operations",
    CHOSEN,
    "A thread that this part of it is of, and most operations, is what its program's speed hangs on, whatever the others sleep in.",
)
FLUSH_OWNER_MIN = row(
    "FLUSH_OWNER_MIN",
    0.5,
    "share of the bytes",
    CHOSEN,
    "A flush is the work of another program that wrote more than this part of what ended on its device since the flush before.",
)
CPU_ASKED_MIN = row(
    "CPU_ASKED_MIN",
    0.5,
    "share of the CPUs",
    CHOSEN,
    "What another program takes of the CPU time is its cost where a program runs on, or is ready to, this part of the CPUs: then it goes as fast as these let it.",
)
CPU_ASKED_WITH_OTHERS_MIN = row(
    "CPU_ASKED_WITH_OTHERS_MIN",
    0.3,
    "share of the CPUs",
    CHOSEN,
    "The same where a program shares the CPUs with one that it works with (machine/partners), and nothing is recorded of how long that one ran.",
)
ONE_WINDOW_PART_MAX = row(
    "ONE_WINDOW_PART_MAX",
    0.85,
    "share",
    CHOSEN,
    "One window of a condition is one event if it covers less than this part of the time: what is always there is how things are.",
)
TAIL_ERRORS = row(
    "TAIL_ERRORS",
    6.0,
    "standard errors",
    CHOSEN,
    "A percentile is taken from the largest values, down to this many standard errors beyond its rank.",
)
TAIL_MAX = row(
    "TAIL_MAX", 100_000, "operations", CHOSEN, "If these are more, the rank is certain enough by itself."
)

# times_of_day
PART_OF_DAY_NS = row(
    "PART_OF_DAY_NS",
    3_600_000_000_000,
    "ns",
    CHOSEN,
    "The day, which begins with the recording, is divided into parts of this length, or of a block where blocks are longer.",
)
DAILY_WIDTHS = row(
    "DAILY_WIDTHS",
    (1, 2, 4, 8),
    "parts of a day",
    CHOSEN,
    "The widths of a time of the day: this many successive parts.",
)
DAYS_MIN = row("DAYS_MIN", 7, "days", CHOSEN, "A time of the day must occur on at least this many days.")
DAYS_SLOW_MIN = row(
    "DAYS_SLOW_MIN",
    0.75,
    "share",
    CHOSEN,
    "The member is slower then than at other times of the same day on such a share of them.",
)

# wakers
WAKERS_SLEEPS_MAX = row(
    "WAKERS_SLEEPS_MAX",
    1_000,
    "sleeps",
    CHOSEN,
    "At most this many sleeps are asked for who ended them, and this many long ones: those that have this part of the time of all.",
)
WAKERS_HOPS_MAX = row(
    "WAKERS_HOPS_MAX",
    8,
    "threads",
    CHOSEN,
    "A wait is followed this often from who was woken to who woke (DESIGN 5).",
)
WAKERS_KNOWN_MIN = row(
    "WAKERS_KNOWN_MIN",
    0.5,
    "share of the sleeps' time",
    CHOSEN,
    "Who ended sleeps is said where it is known for most of their time, and where it is mostly the same.",
)
HELD_BY_OWN_MIN = row(
    "HELD_BY_OWN_MIN",
    0.9,
    "share of the sleep",
    CHOSEN,
    "A sleep was held by what another thread of the same program slept in, which woke it, where that one slept for this part of it.",
)
TURN_PART_MIN = row(
    "TURN_PART_MIN",
    0.1,
    "share of what the call that lost least did",
    CHOSEN,
    "Shorter sleeps of calls are not asked for who ended them.",
)
HELD_BY_OWN_SLEEPS_MAX = row(
    "HELD_BY_OWN_SLEEPS_MAX",
    1_024,
    "sleeps",
    CHOSEN,
    "At most this many sleeps are asked for that, the longest ones.",
)
WAKERS_CALL_MIN_NS = row(
    "WAKERS_CALL_MIN_NS",
    10_000,
    "ns",
    CHOSEN,
    "Shorter calls of a thread that others waited for count as running: they are answered from memory.",
)
WAKERS_DID_MIN = row(
    "WAKERS_DID_MIN",
    0.2,
    "share",
    CHOSEN,
    "What a thread did while others waited for it is said from this part of that time on.",
)

# asleep
ASLEEP_OPERATIONS_MAX = row(
    "ASLEEP_OPERATIONS_MAX",
    2_000,
    "operations",
    CHOSEN,
    "At most this many slow operations are examined for what threads slept in.",
)
ORDINARY_REQUESTS_MAX = row(
    "ORDINARY_REQUESTS_MAX",
    3.0,
    "times the median request",
    CHOSEN,
    "A call that slept in the file system for I/O, or missed the cache, is as long as its device makes it up to this: the request before its own, its own, and a flush.",
)
MISSED_REQUESTS_MIN = row(
    "MISSED_REQUESTS_MIN",
    20,
    "requests",
    CHOSEN,
    "Of fewer reads of a device nobody knows how long one usually is, so that a read that missed the cache cannot be compared with them.",
)
ASLEEP_REQUESTS_MAX = row(
    "ASLEEP_REQUESTS_MAX",
    5_000_000,
    "requests",
    CHOSEN,
    "Of more requests it is not asked which were in flight.",
)

# fired
FIRED_NEAR_NS = row(
    "FIRED_NEAR_NS",
    50_000,
    "ns",
    CHOSEN,
    "A flight recorder and a sealed case see the begin and end of one operation at hooks that are at most this far apart.",
)

# thread_time
THREAD_OPERATIONS_MAX = row(
    "THREAD_OPERATIONS_MAX",
    200_000,
    "operations",
    CHOSEN,
    "At most this many operations around the middle show what a program's threads do with their time.",
)
THREAD_OPERATIONS_MIN = row("THREAD_OPERATIONS_MIN", 100, "operations", CHOSEN, "Fewer do not.")
THREAD_BUSY_MIN = row(
    "THREAD_BUSY_MIN",
    0.1,
    "share",
    CHOSEN,
    "Threads count that are in operations for this part of the time of the busiest one: a program's main thread often only waits for them.",
)
THREADS_MAX = row(
    "THREADS_MAX", 64, "threads", CHOSEN, "At most this many of the busy threads are examined, an even part."
)
CALL_HOLDS_MIN = row(
    "CALL_HOLDS_MIN",
    0.9,
    "share",
    CHOSEN,
    "Operations hold their thread if it begins no other before they end, in this part of them: with several in flight hardly any do.",
)

# the slowest operations, and what went on around them
LONGEST_MAX = row(
    "LONGEST_MAX",
    20_000,
    "operations",
    CHOSEN,
    "At most this many of the longest of each kind and size class are examined: one episode may hold thousands.",
)
APART_CALL_NS_MIN = row(
    "APART_CALL_NS_MIN",
    1_000_000,
    "ns",
    CHOSEN,
    "An operation of a program, or a call, that lost less stands apart from nothing: page cache, locks, page faults and interrupts make some calls that long on any machine.",
)
COMMON_EPISODES_MIN = row(
    "COMMON_EPISODES_MIN",
    10,
    "episodes",
    CHOSEN,
    "An operation does not stand apart if others are in the same stage for as long in this many other episodes ...",
)
COMMON_PER_APART = row(
    "COMMON_PER_APART",
    5,
    "times",
    CHOSEN,
    "... and these are this many times as many as those that stand apart.",
)
LIKE_LONGEST = row(
    "LIKE_LONGEST",
    0.5,
    "share",
    CHOSEN,
    "Operations belong to an episode if they overlap with its longest one and take this part of its time.",
)
ALIKE_LENGTH_MIN = row(
    "ALIKE_LENGTH_MIN",
    0.9,
    "share",
    CHOSEN,
    "An episode that the same cause held for this part of the shortest one that stands apart, stands apart with it.",
)
ALONE_RATIO_MIN = row(
    "ALONE_RATIO_MIN",
    100.0,
    "times the next of its kind",
    CHOSEN,
    "A single operation with a known cause stands apart whatever the tail behind it is like, from this on, ...",
)
ALONE_SHARE_MIN = row(
    "ALONE_SHARE_MIN",
    0.05,
    "share of all latency",
    CHOSEN,
    "... if it lost this much of the time of all operations by itself.",
)
RARE_KIND_OPERATIONS_MIN = row(
    "RARE_KIND_OPERATIONS_MIN",
    20,
    "operations",
    CHOSEN,
    "Of a kind with fewer operations it is not known what is usual of it.",
)
RARE_KIND_RATIO_MIN = row(
    "RARE_KIND_RATIO_MIN",
    20.0,
    "times",
    DESIGN_8,
    "An operation of a kind that is too rare to have a tail of its own stands apart if it takes this many times the longest of all other operations, and the median of its kind.",
)
AHEAD_TOLD_MIN = row(
    "AHEAD_TOLD_MIN",
    8,
    "requests",
    CHOSEN,
    "Of an operation that waited in a queue it is said what was ahead of it from this many requests on, and of one that waited for a device what another program had there.",
)
EPISODES_KEPT_MIN = row(
    "EPISODES_KEPT_MIN",
    20,
    "episodes",
    CHOSEN,
    "At least this many of each kind are kept, also where none stands apart.",
)
COVERS_MIN = row(
    "COVERS_MIN", 0.9, "share", DESIGN_8, "A cause covers this part of the time in the stage that it held."
)
STOPS_BY_CHANCE_MAX = row(
    "STOPS_BY_CHANCE_MAX",
    0.01,
    "probability",
    DESIGN_8,
    "Calls waited for a process that was stopped, if it is this unlikely that as many of the long ones begin and end with its stops by chance.",
)
WAIT_PART_MIN = row(
    "WAIT_PART_MIN",
    0.01,
    "share",
    CHOSEN,
    "Of a thread's waits only those are looked at that take this part of what the operation lost that lost least.",
)
P99_LOST_MIN = row(
    "P99_LOST_MIN",
    0.002,
    "share of all latency",
    CHOSEN,
    "A cause that costs less than this is not asked for what it does to the 99th percentile.",
)
REPLAY_OPERATIONS_MAX = row(
    "REPLAY_OPERATIONS_MAX",
    300_000,
    "operations",
    CHOSEN,
    "More operations that are due at times of their own are not played again: what waited behind others is not counted.",
)
SYNCS_ALONE_MIN = row(
    "SYNCS_ALONE_MIN",
    0.99,
    "part of a thread's syncs",
    CHOSEN,
    "A thread makes its syncs with nothing else in flight, and begins nothing before they end, if this part of them was like that.",
)
WAITS_MAX = row("WAITS_MAX", 2_000_000, "waits", CHOSEN, "Of more waits than this the longest are looked at.")
REQUESTS_RARE_MAX = row(
    "REQUESTS_RARE_MAX",
    0.05,
    "share of the requests of a device",
    CHOSEN,
    "A call that slept for I/O waited for the one request that was under way then, if no more of its device's requests are that long; or for one of several, if there is no larger chance that it ended when the sleep did.",
)
WOKE_NS = row(
    "WOKE_NS",
    200_000,
    "ns",
    CHOSEN,
    "A thread that slept for I/O is woken at most this long after the request completed: an interrupt, and a turn of whoever takes completions.",
)
HELD_CALL_PART_MIN = row(
    "HELD_CALL_PART_MIN",
    0.02,
    "share",
    CHOSEN,
    "Of calls of other threads only those are looked at that take this part of what an operation lost while it slept.",
)
ELSEWHERE_MAX = row(
    "ELSEWHERE_MAX",
    0.05,
    "share",
    DESIGN_8,
    "... and as much of this part of other windows of the same length at most.",
)
TOGETHER_P_MAX = row(
    "TOGETHER_P_MAX",
    0.01,
    "probability",
    DESIGN_8,
    "Where it covers more of other windows, it still held the episodes of a device if chance hardly gives it that many of them.",
)
WINDOWS = row("WINDOWS", 400, "windows", CHOSEN, "Windows at random moments that are looked at.")
WINDOWS_MIN = row(
    "WINDOWS_MIN",
    40,
    "windows",
    CHOSEN,
    "With fewer windows apart from the episode nothing is known of other times.",
)
NOTICED_NS = row(
    "NOTICED_NS",
    1_000_000,
    "ns",
    CHOSEN,
    "A device's trouble belongs to an operation that ended at most this long before: a kernel logs an event when it notices it.",
)

# machine: peers
ARM_TAKES_MIN_NS = row(
    "ARM_TAKES_MIN_NS",
    1_000_000,
    "ns",
    CHOSEN,
    "Half a turn of a disk with 15,000 turns per minute takes 2 ms; where a tenth of the requests takes less than half of that, there is no arm, or its cache answers.",
)
PEER_DEVICES_MIN = row(
    "PEER_DEVICES_MIN",
    3,
    "devices",
    CHOSEN,
    "Devices seen operation by operation need this many of their kind: two disks of a machine may do different work.",
)
PEER_MEMBERS_MIN = row(
    "PEER_MEMBERS_MIN",
    2,
    "devices",
    CHOSEN,
    "Members of one volume (a mirror, a stripe) need this many: they get the same work.",
)
PEER_BUSIER = row(
    "PEER_BUSIER",
    1.3,
    "ratio",
    CHOSEN,
    "A device with this many times its peers' requests (median) is busier.",
)
PEER_OPERATIONS_MIN = row(
    "PEER_OPERATIONS_MIN", 100, "operations", CHOSEN, "Each must also have at least this many operations."
)

# requeued
REQUEUE_NOTED_NS = row(
    "REQUEUE_NOTED_NS",
    1_000_000,
    "ns",
    CHOSEN,
    "That long after a request has ended, at most, is what it met noted.",
)

# volume_time
VOLUME_OPERATIONS_MAX = row(
    "VOLUME_OPERATIONS_MAX",
    2_000,
    "operations",
    CHOSEN,
    "Slow operations that are looked up below a volume, at most.",
)

VOLUME_ALONE_MIN = row(
    "VOLUME_ALONE_MIN",
    0.5,
    "share of a volume's own time",
    CHOSEN,
    "From this part on in which no member had a request in flight, that time is the volume's own work; and from this part of that time on that ends when another device completes a "
    "request, it waits for that device.",
)
VOLUME_P_MAX = row(
    "VOLUME_P_MAX",
    0.01,
    "probability",
    DESIGN_8,
    "A volume waits for another device if as many of its times alone end just behind completions there, or for one of its members if its times with that one are as long, only with this "
    "probability by chance.",
)
MEMBER_ALONE_MIN = row(
    "MEMBER_ALONE_MIN",
    0.2,
    "share of a volume's own time",
    CHOSEN,
    "A member that alone has requests in flight for this part of it is named ...",
)
MEMBER_ALONE_RATIO_MIN = row(
    "MEMBER_ALONE_RATIO_MIN",
    2.0,
    "ratio",
    CHOSEN,
    "... if that is this many times as much as any other member has.",
)
MEMBER_ALONE_TIMES_MAX = row(
    "MEMBER_ALONE_TIMES_MAX",
    2_000,
    "times",
    CHOSEN,
    "Times with one member that are dealt out anew, the longest.",
)
VOLUME_SHUFFLES = row(
    "VOLUME_SHUFFLES",
    2_000,
    "draws",
    CHOSEN,
    "How often they are dealt out to members at random.",
)

# own_work
TAIL_PART = row(
    "TAIL_PART",
    0.01,
    "ratio",
    CHOSEN,
    "The slowest operations of a kind, up to this part of it, are its tail.",
)
TAIL_OPERATIONS_MIN = row(
    "TAIL_OPERATIONS_MIN",
    10,
    "operations",
    CHOSEN,
    "The operations of a shorter tail are listed one by one (`slowest`).",
)
OWN_SHARE_TOLD = row(
    "OWN_SHARE_TOLD",
    0.05,
    "ratio",
    CHOSEN,
    "A cause that held a smaller part of the tail's time is not reported.",
)
OWN_WORK_TOLD_MAX = row(
    "OWN_WORK_TOLD_MAX",
    2,
    "kinds",
    CHOSEN,
    "It is reported for at most this many kinds of operation, those with most operations first.",
)

# matched_groups
MATCHED_BLOCKS = row(
    "MATCHED_BLOCKS",
    24,
    "blocks",
    CHOSEN,
    "Two groups of operations are compared in this many parts of the time: enough for a sign-flip test at any level that correction asks for.",
)
MATCHED_CELL_MIN = row(
    "MATCHED_CELL_MIN",
    3,
    "operations",
    CHOSEN,
    "A stratum and a block of time are compared if each group has at least this many there.",
)
MATCHED_ROUNDS = row(
    "MATCHED_ROUNDS", 9999, "rounds", CHOSEN, "Drawings for the interval and for the test of two groups."
)

# two_levels
LEVELS_WINDOWS_MIN = row(
    "LEVELS_WINDOWS_MIN",
    3,
    "windows",
    CHOSEN,
    "Something comes back if there are this many windows of it: one is an event, two may be any.",
)
LEVELS_WINDOW_MIN = row(
    "LEVELS_WINDOW_MIN",
    3,
    "blocks",
    CHOSEN,
    "A typical window lasts this long: shorter ones are pauses, no level.",
)
LEVELS_PART_MIN = row(
    "LEVELS_PART_MIN",
    0.1,
    "share of the blocks",
    CHOSEN,
    "Either level holds at least this part of the time.",
)
LEVELS_BETWEEN = row(
    "LEVELS_BETWEEN",
    2,
    "blocks per window",
    CHOSEN,
    "Only the block in which a window begins and the one in which it ends lie between the levels (in the middle half of the change).",
)

# level_change
LEVEL_BLOCKS = row(
    "LEVEL_BLOCKS", 48, "blocks", CHOSEN, "Parts of the time in which a change of level is looked for."
)
LEVEL_PLACES = row(
    "LEVEL_PLACES",
    768,
    "parts",
    CHOSEN,
    "Parts of the time that blocks are made of: a block is as much of the time and of the requests together as any other.",
)
LEVEL_SIDE_MIN = row(
    "LEVEL_SIDE_MIN",
    5,
    "blocks",
    CHOSEN,
    "A level before and one after a change must last this long: a tenth of the run, in time and requests on average.",
)
LEVEL_RATIO_MIN = row(
    "LEVEL_RATIO_MIN",
    1.15,
    "ratio",
    CHOSEN,
    "The least change that is one: shared disks drift by less (decision 0320).",
)
LEVEL_SHARP_MIN = row(
    "LEVEL_SHARP_MIN",
    0.8,
    "share of the change (log)",
    CHOSEN,
    "At least this part of a change lies in the block at which it begins: a drift is no change of level.",
)
LEVEL_NOISE_MAX = row(
    "LEVEL_NOISE_MAX",
    0.25,
    "share of the change (log)",
    CHOSEN,
    "Either level may vary by this part of the change (standard deviation of its blocks).",
)
LEVEL_LOAD_MAX = row(
    "LEVEL_LOAD_MAX",
    1.1,
    "ratio",
    CHOSEN,
    "Where more than this is asked for after a change than before, it is the load's.",
)

# drive_counters
DRIVE_USED_MAX = row(
    "DRIVE_USED_MAX",
    1.0,
    "share of the rated life",
    "NVM Express Base Specification: 100 % is what the maker rates a drive for",
    "From here on a drive has used all of the life that its maker rates it for.",
)
DRIVE_NAMES_MAX = row(
    "DRIVE_NAMES_MAX", 5, "drives", CHOSEN, "Drives without troubles that are named; of more the number."
)

# woken
WOKEN_IDLE_MIN_NS = row(
    "WOKEN_IDLE_MIN_NS",
    10_000_000,
    "ns",
    CHOSEN,
    "A shorter silence is none: drives and links wait for longer before they sleep.",
)
WOKEN_EPISODES_MIN = row(
    "WOKEN_EPISODES_MIN",
    5,
    "episodes",
    "DESIGN 8, five episodes",
    "Fewer slow requests after a silence may have come there by chance.",
)
WOKEN_SLOW_MIN = row(
    "WOKEN_SLOW_MIN",
    0.5,
    "share of the requests",
    CHOSEN,
    "Less is not what a device does that sleeps: all that come after a silence wait.",
)
WOKEN_CONTRAST_MIN = row(
    "WOKEN_CONTRAST_MIN", 10, "ratio", CHOSEN, "At least this many times the part of those that came sooner."
)

# sampled_account
ACCOUNT_DEVICES_MAX = row(
    "ACCOUNT_DEVICES_MAX",
    64,
    "devices",
    CHOSEN,
    "Of more a single slow sample is expected, and no doubt; of their rates those that fell lowest are looked at.",
)
ACCOUNT_DEVICES_TOLD = row(
    "ACCOUNT_DEVICES_TOLD", 3, "devices", CHOSEN, "The busiest ones are described; the others had less to do."
)
ACCOUNT_KINDS_TOLD = row(
    "ACCOUNT_KINDS_TOLD",
    4,
    "kinds",
    CHOSEN,
    "Kinds of operations of one program that are described: the slowest and the commonest ones.",
)
ACCOUNT_INTERVAL_PERCENTILE_MAX = row(
    "ACCOUNT_INTERVAL_PERCENTILE_MAX",
    99.0,
    "percentile",
    CHOSEN,
    "An interval of a log seldom has the operations that a percentile beyond it needs (three hundred for this one).",
)
ACCOUNT_LONGER_MIN = row(
    "ACCOUNT_LONGER_MIN",
    2.0,
    "ratio",
    CHOSEN,
    "The longest operations of two alike programs are often this far apart; beyond, one of both had something that the other had not.",
)
ACCOUNT_PERCENTILES_TOLD = row(
    "ACCOUNT_PERCENTILES_TOLD",
    5,
    "percentiles",
    CHOSEN,
    "More of one distribution push the slowest out of the sentence: of many the sentence holds the half, 90, 99, 99.9 and 99.99 %.",
)
ACCOUNT_SAMPLES_MIN = row(
    "ACCOUNT_SAMPLES_MIN", 3, "samples", CHOSEN, "Fewer samples of a kind say nothing of what is usual."
)
ACCOUNT_HANDLERS_TOLD = row(
    "ACCOUNT_HANDLERS_TOLD",
    3,
    "handlers",
    CHOSEN,
    "The account names those that took most time; the others are summed up.",
)
ACCOUNT_SILENT_MIN = row(
    "ACCOUNT_SILENT_MIN",
    2,
    "samples",
    CHOSEN,
    "One sample in which nothing ended may be a rounded rate; two or more in a row, or one as long as that, are a time in which nothing ended.",
)
ACCOUNT_BUSY_MIN = row(
    "ACCOUNT_BUSY_MIN",
    0.95,
    "share of a sample",
    CHOSEN,
    "A device that had a request for this part of the time was busy.",
)
ACCOUNT_AS_BUSY_MIN = row(
    "ACCOUNT_AS_BUSY_MIN",
    0.5,
    "share of the time",
    CHOSEN,
    "Beside the busiest device others are named that were busy for this part of the time at least ...",
)
ACCOUNT_AS_BUSY_SHARE = row(
    "ACCOUNT_AS_BUSY_SHARE",
    0.9,
    "of the busiest",
    CHOSEN,
    "... and for this part of the time that the busiest was.",
)
ACCOUNT_BUSY_POSSIBLE_MAX = row(
    "ACCOUNT_BUSY_POSSIBLE_MAX",
    1.05,
    "share of a sample",
    "iostat divides what the kernel counts in ms by an interval that it measures in ticks of 10 ms: 1 % of a second too much, and some percent of shorter ones",
    "A device cannot be busy for longer than there was time; what exceeds it by more is no rounding.",
)
ACCOUNT_DISAGREE_RATIO = row(
    "ACCOUNT_DISAGREE_RATIO",
    2,
    "ratio",
    CHOSEN,
    "Requests in flight, and rate times latency, of one sample should be the same (Little); requests that the sample cuts make them differ by less.",
)
ACCOUNT_TAIL_MIN = row(
    "ACCOUNT_TAIL_MIN",
    40,
    "samples",
    CHOSEN,
    "One of twenty is at least two samples: less is no part of them.",
)
ACCOUNT_LOAD_RATIO = row(
    "ACCOUNT_LOAD_RATIO",
    1.5,
    "ratio",
    CHOSEN,
    "Slow samples differ from the usual one from this on, and so does more to do.",
)
ACCOUNT_MANY_TIMES_MIN = row(
    "ACCOUNT_MANY_TIMES_MIN",
    5.0,
    "ratio",
    CHOSEN,
    "A latency, or a rate of others, that is this many times the usual one is no fluctuation; PostgreSQL's fsync made 80 times as many writes, and reads 40 times as long or more.",
)
ACCOUNT_ALIKE_MAX = row("ACCOUNT_ALIKE_MAX", 1.2, "ratio", CHOSEN, "Up to this there was no more to do.")
ACCOUNT_APART_MIN = row(
    "ACCOUNT_APART_MIN",
    2.0,
    "ratio",
    CHOSEN,
    "The mean of two values this far apart is a third or more away from both.",
)
ACCOUNT_STALLED_MIN = row(
    "ACCOUNT_STALLED_MIN",
    0.05,
    "share of an interval",
    "DESIGN 8",
    "Writers that a store holds up for less are no news.",
)
ACCOUNT_SLOW_RATE_MAX = row(
    "ACCOUNT_SLOW_RATE_MAX",
    0.5,
    "ratio",
    CHOSEN,
    "Progress at less than this part of its median rate is counted.",
)
ACCOUNT_WHOLE_MIN = row(
    "ACCOUNT_WHOLE_MIN",
    0.95,
    "share of the time since the opening",
    CHOSEN,
    "An interval of at least this part is the whole time, as far as printed numbers are rounded.",
)
ACCOUNT_IN_FLIGHT_MIN = row(
    "ACCOUNT_IN_FLIGHT_MIN", 1, "requests", CHOSEN, "Less in flight than one request is no queue."
)
ACCOUNT_UNEXPLAINED_RATIO = row(
    "ACCOUNT_UNEXPLAINED_RATIO",
    5,
    "ratio",
    CHOSEN,
    "What is in flight is the rate times the latency (Little); samples are rounded, so only a multiple of that is reported.",
)

# same_requests
SAME_CELL_MIN = row(
    "SAME_CELL_MIN",
    20,
    "requests",
    CHOSEN,
    "Requests of one kind and queue depth (or place) are compared if each level has this many.",
)
SAME_SHARED_MIN = row(
    "SAME_SHARED_MIN",
    0.5,
    "share of the requests",
    CHOSEN,
    "Levels are compared at the same queue depths, and at the same places, if this part of the slow requests has such on the other level ...",
)
SAME_KEPT_MIN = row(
    "SAME_KEPT_MIN",
    0.5,
    "share of the change (log)",
    CHOSEN,
    "... and there this part of the change has to be left: else it is the depth, or the place, that takes longer.",
)
SAME_ORDER_MAX = row(
    "SAME_ORDER_MAX",
    0.2,
    "share of the requests",
    CHOSEN,
    "On both levels about as many requests follow the one before them on the device: they differ by less than this.",
)

# slow_places
PART_PLACES = row(
    "PART_PLACES",
    64,
    "places",
    CHOSEN,
    "Parts of what was read of a device, with as many reads in each, in which two levels are looked for, at most.",
)
PART_PLACES_MIN = row("PART_PLACES_MIN", 16, "places", CHOSEN, "Fewer show no two levels.")
PART_READS_MIN = row("PART_READS_MIN", 16, "reads", CHOSEN, "A place has this many reads of one size.")
PART_GAP_MIN = row(
    "PART_GAP_MIN",
    0.5,
    "share of the change (log)",
    CHOSEN,
    "The levels are this far apart: between the fastest slow place, and the slowest of the others.",
)
PART_APART_MIN = row(
    "PART_APART_MIN",
    0.9,
    "share of the reads",
    CHOSEN,
    "This part of the reads in slow places takes longer than 95 % of the others.",
)
PART_MOST = row(
    "PART_MOST",
    0.5,
    "share of the places",
    CHOSEN,
    "Slow places are fewer than this: else it is the others that are fast (in a cache, or empty).",
)
PART_RUNS_MAX = row("PART_RUNS_MAX", 3, "pieces", CHOSEN, "Slow places lie together in as few pieces.")
PART_TIME_P_MAX = row(
    "PART_TIME_P_MAX",
    0.01,
    "probability",
    DESIGN_8,
    "A slow part was met again if requests at another time, moved along that time, would hit it as well no more often than this.",
)
