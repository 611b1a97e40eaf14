"""Every threshold of detectors and of the verdict; `TABLE` holds those of reading, of evidence and of the machine, too.

What a row is, and how one is changed for a while, stands in `whodisk.reading.thresholds`.
"""

from __future__ import annotations

import math

from whodisk.reading.thresholds import CHOSEN, DESIGN_8, DESIGN_9, TABLE, Threshold, row, scaled

__all__ = ["TABLE", "Threshold", "scaled"]


# shared by all
Q_VALUE_MAX = row(
    "Q_VALUE_MAX",
    0.01,
    "probability",
    DESIGN_8,
    "A finding must be this unlikely under its null model, after Benjamini-Hochberg.",
)
SHARE_OF_LATENCY_MIN = row(
    "SHARE_OF_LATENCY_MIN",
    0.05,
    "share of all latency",
    DESIGN_8,
    "The smallest effect that becomes a finding.",
)
SHARE_OF_EXCESS_MIN = row(
    "SHARE_OF_EXCESS_MIN",
    0.20,
    "share of the excess",
    CHOSEN,
    "Outliers become a finding from this part of what slow operations lost on, beyond what chance gives ...",
)
SHARE_OF_LATENCY_FLOOR = row(
    "SHARE_OF_LATENCY_FLOOR",
    0.01,
    "share of all latency",
    CHOSEN,
    "... if they are worth mentioning at all ...",
)
OUTLIER_RATIO_MIN = row(
    "OUTLIER_RATIO_MIN",
    10.0,
    "times typical",
    CHOSEN,
    "... if they are an order of magnitude beyond typical ...",
)
OUTLIER_EPISODES_MIN = row("OUTLIER_EPISODES_MIN", 3, "episodes", CHOSEN, "... and not just once or twice.")
P99_RATIO_MIN = row(
    "P99_RATIO_MIN",
    1.2,
    "ratio",
    DESIGN_8,
    "Where the cause itself was seen and its effect is found by subtraction: the 99th percentile with it, over the one without.",
)
SEEN_P99_RATIO_MIN = row(
    "SEEN_P99_RATIO_MIN",
    1.1,
    "ratio",
    DESIGN_9,
    "The same where each time it struck was seen, and what it cost by itself: from here on a fault counts.",
)
SHARE_FOR_P99_MIN = row(
    "SHARE_FOR_P99_MIN",
    0.002,
    "share of all latency",
    CHOSEN,
    "Outliers that cost a smaller part accuse from this part on, if they multiply the 99th percentile by P99_RATIO_MIN: short operations among long ones can be late by any factor for little time.",
)

# background_work
BACKGROUND_MOVED_MIN = row(
    "BACKGROUND_MOVED_MIN",
    0.1,
    "share",
    CHOSEN,
    "A program must move this part of all bytes, or make this part of the requests, while it is there: who writes a log line is no load.",
)

# shared_devices
SHARED_DEVICE_MIN = row(
    "SHARED_DEVICE_MIN",
    0.01,
    "share",
    CHOSEN,
    "A neighbour is looked for on devices on which this part of the judged program's time passes, of operations or requests: elsewhere it can cost no more.",
)
SHARED_KNOWN_MIN = row(
    "SHARED_KNOWN_MIN",
    0.5,
    "share",
    CHOSEN,
    "Operations decide that alone if this part of their time is at a device that they tell; else requests count, too.",
)

# blamed_device
DEVICE_P_MAX = row(
    "DEVICE_P_MAX",
    0.01,
    "probability",
    CHOSEN,
    "A device is named when its slow episodes are this unlikely to fall on it by chance.",
)
DEVICE_SHARE_ALONE = row(
    "DEVICE_SHARE_ALONE",
    0.8,
    "share",
    CHOSEN,
    "A device that holds this part of a stage's excess is judged by itself; one that also served this part of all operations is named without a test: there was hardly another.",
)
BLAMED_DEVICE_MOSTLY = row(
    "BLAMED_DEVICE_MOSTLY",
    0.9,
    "share",
    CHOSEN,
    "A device is named only if this part of the episodes, or of what an episode lost, is its own.",
)
OWNER_EPISODES_MIN = row(
    "OWNER_EPISODES_MIN",
    2,
    "episodes",
    CHOSEN,
    "From this many on, all of which one device held, it is where they were: that is read off the record.",
)
OWNER_DRAWS = row(
    "OWNER_DRAWS",
    1000,
    "draws",
    CHOSEN,
    "The number of times an episode's operations are dealt to devices at random.",
)
BLAMED_DEVICE_LINKED_MAX = row(
    "BLAMED_DEVICE_LINKED_MAX",
    1000,
    "operations",
    CHOSEN,
    "At most this many slow operations have their requests looked up.",
)

# burst
BURST_OPERATIONS_PER_BIN = row(
    "BURST_OPERATIONS_PER_BIN", 20, "operations", CHOSEN, "Operations per time bin on average."
)
BURST_BINS_MAX = row("BURST_BINS_MAX", 4096, "bins", CHOSEN, "The most time bins.")
BURST_BINS_MIN = row("BURST_BINS_MIN", 64, "bins", CHOSEN, "The fewest time bins.")
BURST_SLOWER = row(
    "BURST_SLOWER",
    0.5,
    "share",
    CHOSEN,
    "A bin is part of a burst if its operations take this much longer than usual ...",
)
BURST_DEVIATIONS = row(
    "BURST_DEVIATIONS",
    6.0,
    "robust standard deviations",
    CHOSEN,
    "... and by this much of the spread of the bins.",
)
BURST_COVERED_MAX = row(
    "BURST_COVERED_MAX",
    0.4,
    "share",
    CHOSEN,
    "Bursts are something else than the rest: they cover at most this part of the time.",
)
BURST_REGULARITY_MIN = row(
    "BURST_REGULARITY_MIN",
    0.7,
    "mean direction",
    CHOSEN,
    "A period accuses if the bursts keep to it this well (1 = to the instant).",
)
BURSTS_MIN = row("BURSTS_MIN", 5, "bursts", DESIGN_8, "Fewer bursts have no period.")
BURST_LOAD_MIN = row(
    "BURST_LOAD_MIN",
    2.0,
    "times the rate between bursts",
    CHOSEN,
    "From this rate of operations on bursts are called waves of load, not stalls.",
)
BURST_INSIDE_MIN = row(
    "BURST_INSIDE_MIN",
    0.6,
    "share",
    CHOSEN,
    "A program belongs to the bursts if this part of its bytes falls into them ...",
)
BURST_BUSIER_MIN = row(
    "BURST_BUSIER_MIN",
    2.0,
    "ratio",
    CHOSEN,
    "... and per time this many times as many as at other times: short bursts and what is next to them may cover most of the time ...",
)
BURST_MET_MIN = row(
    "BURST_MET_MIN",
    0.5,
    "share of what the bursts cost",
    CHOSEN,
    "... and is there in bursts that hold this part of the time lost ...",
)
BURST_MOVED_MIN = row(
    "BURST_MOVED_MIN",
    0.05,
    "share",
    CHOSEN,
    "... and if it moves this part of all bytes there: who writes a log line makes no burst.",
)
BURST_STEPS = row(
    "BURST_STEPS", 4, "frequencies", CHOSEN, "Frequencies tested per turn within the whole recording."
)
BURST_ROUNDS = row("BURST_ROUNDS", 1999, "rounds", CHOSEN, "Rounds of the test of a period.")
BURST_P_MAX = row("BURST_P_MAX", 0.01, "probability", CHOSEN, "From here on there is no period.")
BURST_HARMONIC = row(
    "BURST_HARMONIC",
    0.95,
    "share",
    CHOSEN,
    "A harmonic is as regular as the period itself: the lowest frequency that reaches this part of the best one is meant.",
)

# cache_misses
CACHE_MISSES_MIN = row("CACHE_MISSES_MIN", 20, "reads", CHOSEN, "Fewer reads that are misses say nothing.")
CACHE_MISSES_TOLD_MIN = row(
    "CACHE_MISSES_TOLD_MIN",
    0.05,
    "share",
    CHOSEN,
    "Misses are reported from this part of the time of all operations on.",
)
CACHE_EARLY_MIN = row(
    "CACHE_EARLY_MIN",
    0.8,
    "share",
    CHOSEN,
    "A cache warms up if this part of what was read for the first time was so in the first half: later there is less that is new.",
)
CACHE_HITS_MIN = row(
    "CACHE_HITS_MIN",
    0.2,
    "share",
    CHOSEN,
    "Reading again is what is done here if this part of what is read again was found in the cache ...",
)
CACHE_AGAIN_MIN = row(
    "CACHE_AGAIN_MIN", 3, "times", CHOSEN, "... or each piece was fetched again this many times."
)
CACHE_DROPPED_MIN = row(
    "CACHE_DROPPED_MIN",
    0.5,
    "share",
    CHOSEN,
    "A program had dropped what is fetched again if this part of it was; the kernel evicted it if it evicted this part of as much.",
)

# cpu_delay
HOG_SHARE_MIN = row(
    "HOG_SHARE_MIN", 0.3, "share", CHOSEN, "Who ran meanwhile is named from this part of the waiting on."
)
CROWD_MIN = row(
    "CROWD_MIN",
    0.2,
    "share",
    CHOSEN,
    "Waits of a time slice and less accuse from this part of the submitting threads' time on, if another process was seen to have the CPU ...",
)
CROWD_OFTEN = row(
    "CROWD_OFTEN",
    0.02,
    "share",
    CHOSEN,
    "... or of their operations' time, if this part of the operations waited ...",
)
CROWD_WAIT_NS = row(
    "CROWD_WAIT_NS",
    100_000,
    "ns",
    CHOSEN,
    "... each for at least this long: shorter waits are the cost of any switch ...",
)
LONG_TURN_NS = row(
    "LONG_TURN_NS",
    1_000_000,
    "ns",
    CHOSEN,
    "Waits from here on are no mere switch of threads: who had the CPU in most of them is asked for what they do to the 99th percentile.",
)
CROWDED_CPU_MIN = row(
    "CROWDED_CPU_MIN",
    0.5,
    "share",
    CHOSEN,
    "A CPU is slow because of a program if submitters waited for that program there for this part of all such waits.",
)
HOG_ASKS_MIN = row(
    "HOG_ASKS_MIN",
    0.1,
    "share of requests or bytes",
    CHOSEN,
    "Who has the CPU is said to ask the same device, too, if this part of the requests or bytes there is its.",
)
ONE_HOG_MIN = row(
    "ONE_HOG_MIN",
    0.5,
    "share",
    CHOSEN,
    "... or for the sake of the 99th percentile, if one other program had the CPU in this part of the waits ...",
)
HOLDERS_MAX = row(
    "HOLDERS_MAX",
    2000,
    "threads",
    CHOSEN,
    "Threads that had a CPU are looked at, the longest first: of the many short-lived processes of a build the rest had it for next to nothing.",
)
CROWD_TOLD = row(
    "CROWD_TOLD", 3, "programs", CHOSEN, "The verdict names this number of the programs of a crowd."
)
SHORT_WAIT_NS = row("SHORT_WAIT_NS", 20_000, "ns", CHOSEN, "... of this length and more.")

# crowded_device
CROWDED_REQUESTS_MIN = row(
    "CROWDED_REQUESTS_MIN",
    100,
    "requests",
    CHOSEN,
    "Fewer requests of a program hold no slots worth speaking of.",
)

# device_errors
ERROR_SLOW_RATIOS = row(
    "ERROR_SLOW_RATIOS",
    (4.0, 2.0),
    "times the median",
    CHOSEN,
    "Operations of a device are looked at from here on; from the second on where the first do not accuse: a short retry makes none four times as long.",
)
ERROR_EPISODES_MIN = row(
    "ERROR_EPISODES_MIN",
    5,
    "episodes",
    DESIGN_8,
    "Errors that cost a small part, but lengthen the 99th percentile, accuse from this many on.",
)
ERROR_NOTICED_NS = row(
    "ERROR_NOTICED_NS",
    1_000_000,
    "ns",
    CHOSEN,
    "An operation is blamed on an event inside it, or at most this long after its end: a kernel logs an event when it notices it.",
)
ERROR_AT_NS = row(
    "ERROR_AT_NS",
    100_000,
    "ns",
    CHOSEN,
    "An event so near the begin or the end of an operation is of that moment: a command fails as it is given or as it ends.",
)
ERROR_OPERATIONS_MAX = row(
    "ERROR_OPERATIONS_MAX", 300_000, "operations", CHOSEN, "The slowest operations that are looked at."
)

# layout
LAYOUT_OPERATIONS_MAX = row(
    "LAYOUT_OPERATIONS_MAX",
    50_000,
    "operations",
    CHOSEN,
    "Operations looked at, the first ones: a layout does not change while it is read.",
)
LAYOUT_REQUESTS_MAX = row(
    "LAYOUT_REQUESTS_MAX", 500_000, "requests", CHOSEN, "Requests looked at, the first ones."
)
NEIGHBOURS_MIN = row(
    "NEIGHBOURS_MIN", 50, "neighbours", CHOSEN, "Fewer neighbours in a file say nothing about its layout."
)
READ_ON_MAX = row(
    "READ_ON_MAX",
    16,
    "operations",
    CHOSEN,
    "An operation reads on if it begins where one of the last operations in the same file ended, this many back: there may be several readers, or several requests in flight.",
)
FOLLOWING_MIN = row(
    "FOLLOWING_MIN",
    20,
    "requests",
    CHOSEN,
    "At least this many requests that follow each other on disk show what one costs without a jump; ...",
)
SLOPE_ERRORS_MIN = row(
    "SLOPE_ERRORS_MIN",
    5.0,
    "standard errors",
    CHOSEN,
    "... without them, how their time grows with their size, if it does so by this many; ...",
)
LAYOUT_FASTEST = row(
    "LAYOUT_FASTEST",
    0.05,
    "quantile",
    CHOSEN,
    "... and else the fastest ones: each still includes a jump, so the reported cost is a lower bound.",
)
LAYOUT_USUAL_RATE = row(
    "LAYOUT_USUAL_RATE",
    150e6,
    "bytes per second",
    "data sheets of 7,200 rpm disks since 2012",
    "What a rotating disk usually reads in order, over all of its surface.",
)
LAYOUT_BLOCKS = row(
    "LAYOUT_BLOCKS", 100, "blocks", CHOSEN, "Blocks of time over which the interval is drawn."
)
LAYOUT_SCORE_MIN = row(
    "LAYOUT_SCORE_MIN",
    4.0,
    "score",
    "`reallocate measure` of ONTAP",
    "An array that measures its own layout asks for reallocation from here on (1 = all blocks together).",
)

# masked_tier
MASKING_PART = row(
    "MASKING_PART",
    0.99,
    "share",
    CHOSEN,
    "A tier that serves this part of all bytes hides the ones below it.",
)
FETCHED_AHEAD_PART = row(
    "FETCHED_AHEAD_PART",
    0.1,
    "share",
    CHOSEN,
    "Of what RAM served, this part came from below in the same run: it shows the device.",
)
MASKED_BYTES_MIN = row("MASKED_BYTES_MIN", 1 << 20, "bytes", CHOSEN, "From fewer bytes nothing is concluded.")

# member_tail
MEMBER_TAIL_QUANTILE = row(
    "MEMBER_TAIL_QUANTILE",
    0.98,
    "quantile",
    CHOSEN,
    "A request is slow beyond this quantile of what is usual in its stratum (median over the devices) ...",
)
MEMBER_TAIL_DISTANCES = row(
    "MEMBER_TAIL_DISTANCES",
    (1.0, 1.25, 1.5, 2.0, 4.0),
    "times the median",
    CHOSEN,
    "... and this many times its median: several distances are tried.",
)
MEMBER_TAIL_OPERATIONS_MIN = row(
    "MEMBER_TAIL_OPERATIONS_MIN",
    100,
    "requests",
    CHOSEN,
    "A device's quantile in a stratum counts from this many requests on.",
)
MEMBER_TAIL_RATE_RATIO_MIN = row(
    "MEMBER_TAIL_RATE_RATIO_MIN",
    2.0,
    "ratio",
    CHOSEN,
    "A device is accused if its slow episodes per request are at least this many times those of its peers.",
)
MEMBER_TAIL_EPISODES_MIN = row("MEMBER_TAIL_EPISODES_MIN", 5, "episodes", DESIGN_8, "Fewer accuse nobody.")

# neighbour
NEIGHBOUR_OPERATIONS_MAX = row(
    "NEIGHBOUR_OPERATIONS_MAX", 200_000, "operations", CHOSEN, "Operations looked at, the first ones."
)
NEIGHBOUR_REQUESTS_MAX = row(
    "NEIGHBOUR_REQUESTS_MAX",
    2_000_000,
    "requests",
    CHOSEN,
    "Requests of a program looked at, the first ones.",
)
NEIGHBOUR_PROGRAMS_MAX = row(
    "NEIGHBOUR_PROGRAMS_MAX", 8, "programs", CHOSEN, "Programs looked at, those with most requests."
)
NEIGHBOUR_REQUESTS_MIN = row(
    "NEIGHBOUR_REQUESTS_MIN", 10, "requests", CHOSEN, "A program with fewer is no load."
)
NEIGHBOUR_SOON = row(
    "NEIGHBOUR_SOON",
    (2.0, 1.0, 0.5),
    "times a typical request",
    CHOSEN,
    "An operation begins soon after a request within this. Where hardly one is later than that, half of it, and so on.",
)
NEIGHBOUR_LATER_MIN = row(
    "NEIGHBOUR_LATER_MIN", 0.02, "share", CHOSEN, "This part of the operations must begin later ..."
)
NEIGHBOUR_KIND_LATER_MIN = row(
    "NEIGHBOUR_KIND_LATER_MIN",
    10,
    "operations",
    CHOSEN,
    "... at least this many in each kind of operation (same size class and queue depth class) ...",
)
NEIGHBOUR_LEFT_OUT_MAX = row(
    "NEIGHBOUR_LEFT_OUT_MAX",
    0.5,
    "share",
    CHOSEN,
    "... and kinds without them may be no more than this part.",
)
NEIGHBOUR_BLOCKS = row(
    "NEIGHBOUR_BLOCKS",
    200,
    "blocks",
    CHOSEN,
    "The unit of evidence: a block of time in which some operations begin soon after a request, and some do not.",
)
NEIGHBOUR_BLOCKS_MIN = row("NEIGHBOUR_BLOCKS_MIN", 5, "blocks", DESIGN_8, "Fewer such blocks accuse nobody.")

# met_requests
MET_REQUESTS_MAX = row(
    "MET_REQUESTS_MAX",
    500_000,
    "requests",
    CHOSEN,
    "Requests that operations waited for, looked at per device, the first ones.",
)
MET_OF_KIND_MIN = row(
    "MET_OF_KIND_MIN",
    10,
    "requests",
    CHOSEN,
    "At least this many must have found the other program's requests inside the device, and as many of their kind none: of fewer, the next one in time is far away.",
)

# overtaken
OVERTAKEN_WAIT_MIN_NS = row(
    "OVERTAKEN_WAIT_MIN_NS",
    100_000,
    "ns",
    CHOSEN,
    "Requests that waited less in the queue are not looked at: a thread that gathers several before it hands them on takes as long.",
)
OVERTAKEN_MIN = row(
    "OVERTAKEN_MIN",
    30,
    "requests",
    CHOSEN,
    "Fewer requests of a program that went past accuse nobody: queues of different CPUs let some pass by themselves.",
)

# over_represented
TRAIT_EPISODES_MAX = row("TRAIT_EPISODES_MAX", 400, "episodes", CHOSEN, "Looked at, at most.")
TRAIT_EPISODES_MIN = row("TRAIT_EPISODES_MIN", 5, "episodes", DESIGN_8, "Fewer accuse nothing.")
TRAIT_ROUNDS = row("TRAIT_ROUNDS", 1999, "rounds", CHOSEN, "Rounds of the test.")
TRAIT_ATTRIBUTABLE_MIN = row(
    "TRAIT_ATTRIBUTABLE_MIN",
    0.5,
    "share",
    CHOSEN,
    "A trait is reported if this part of the slow episodes has it, beyond what chance gives ((share - chance) / (1 - chance)).",
)
TRAIT_COUNT_MIN = row(
    "TRAIT_COUNT_MIN", 4, "episodes", CHOSEN, "Values that fewer slow episodes have are not looked at."
)
TRAIT_BEYOND_MIN = row(
    "TRAIT_BEYOND_MIN",
    3.0,
    "episodes",
    CHOSEN,
    "Fewer slow episodes that have a trait beyond those that have it by chance accuse nothing.",
)
TRAIT_P_MAX = row(
    "TRAIT_P_MAX",
    0.002,
    "probability",
    CHOSEN,
    "A trait accuses if it is this unlikely: every case that is slow for another reason is a trial.",
)
TRAIT_THROUGHOUT_MIN = row(
    "TRAIT_THROUGHOUT_MIN",
    0.5,
    "share of the recording",
    CHOSEN,
    "What was there for less of the time is compared with what else was there then.",
)
TRAIT_THREAD_CHANCE_MAX = row(
    "TRAIT_THREAD_CHANCE_MAX",
    1 / 3,
    "share",
    CHOSEN,
    "A thread is not named for what a device did if more than this part of the slow episodes would be its by chance.",
)
TRAIT_SAME = row(
    "TRAIT_SAME",
    0.9,
    "share",
    CHOSEN,
    "Two traits mean the same operations if they agree in this part of the episodes.",
)
TRAIT_STAGE_MIN = row(
    "TRAIT_STAGE_MIN",
    0.001,
    "share of all latency",
    CHOSEN,
    "A stage in which operations usually spend less than this part of their time says nothing about which of them would be hit there.",
)
TRAIT_NEARLY_WORST = row(
    "TRAIT_NEARLY_WORST",
    0.8,
    "share",
    CHOSEN,
    "An operation stands for its episode if it lost this part of what the worst one lost.",
)

# prefetch
PREFETCH_BYTES_MIN = row(
    "PREFETCH_BYTES_MIN",
    16 << 20,
    "bytes",
    CHOSEN,
    "From fewer prefetched bytes of a file nothing is said: that much is the start of a program, and its libraries.",
)
PREFETCH_WASTE_TOLD = row(
    "PREFETCH_WASTE_TOLD",
    0.2,
    "share",
    CHOSEN,
    "Prefetching is reported as waste from this part of prefetched bytes on that was evicted unread.",
)
PREFETCH_WAITING_MIN = row(
    "PREFETCH_WAITING_MIN",
    0.2,
    "share",
    CHOSEN,
    "Readahead is too small if this part of the time in reads of a file is spent waiting for it ...",
)
PREFETCH_FOLLOWED_MIN = row(
    "PREFETCH_FOLLOWED_MIN",
    0.5,
    "share",
    CHOSEN,
    "... although this part of what was read had been fetched ahead, or was being fetched: it was right, but too late or too little ...",
)
PREFETCH_CAPPED_MIN = row(
    "PREFETCH_CAPPED_MIN",
    0.8,
    "share",
    CHOSEN,
    "... in requests of which this part reaches the limit set for them.",
)
PREFETCH_LATE_MIN = row(
    "PREFETCH_LATE_MIN",
    0.05,
    "times a usual fetch",
    CHOSEN,
    "A fetch begins too late if reads typically wait for this part of it: what is left of one that began in time is the kernel's own work.",
)
PREFETCH_LATE_READS_MIN = row(
    "PREFETCH_LATE_READS_MIN",
    5,
    "reads",
    CHOSEN,
    "Prefetching is too late if at least this many reads waited for what was being fetched already ...",
)
PREFETCH_IDLE_MIN = row(
    "PREFETCH_IDLE_MIN",
    0.5,
    "share",
    CHOSEN,
    "... while both readers and devices did nothing in this part of the time at least: it could have begun earlier ...",
)
PREFETCH_FETCHES_MAX = row(
    "PREFETCH_FETCHES_MAX",
    1.5,
    "times a usual fetch",
    CHOSEN,
    "... and nine in ten of them waited for no longer than this: nothing was stuck.",
)

ASLEEP_BESIDES_MIN = row(
    "ASLEEP_BESIDES_MIN",
    0.1,
    "share of the threads' time",
    CHOSEN,
    "A limit says what else threads do if they sleep this part of their time outside of calls on storage.",
)
SLEEPS_LOOKED_MIN = row(
    "SLEEPS_LOOKED_MIN",
    0.2,
    "share of the threads' sleep outside of calls",
    CHOSEN,
    "What threads slept in is said where the recorder looked at this part of it: it does so once per millisecond and thread.",
)
SLEEPS_INSTEAD_MIN = row(
    "SLEEPS_INSTEAD_MIN",
    0.5,
    "share of the time",
    CHOSEN,
    "Where threads sleep for this part of their time, and no call on storage is under way for this part, the verdict says that storage sets their speed no more "
    "than by the rest; a program that waits for what comes from outside does so for this part.",
)

# volumes
VOLUME_BINDS_MIN = row(
    "VOLUME_BINDS_MIN",
    0.5,
    "share of the operations' time",
    CHOSEN,
    "From this part on, time passes in a volume itself, not in the file system above it or the devices below.",
)
LOOP_BELOW_MIN = row(
    "LOOP_BELOW_MIN",
    0.5,
    "share of a loop device's time",
    CHOSEN,
    "From this part on in which the disk under it was at work, or was so for another program, the verdict says so.",
)
REQUEUED_TOLD_MIN = row(
    "REQUEUED_TOLD_MIN",
    0.8,
    "share of slow operations",
    CHOSEN,
    "From this part of them on, that their requests were given back and queued again is what they have in common.",
)

# full_queue
FULL_QUEUE_SMALL = row(
    "FULL_QUEUE_SMALL",
    32,
    "requests",
    CHOSEN,
    "A queue that may hold fewer, and fewer than Linux gives one like it, is small by its setting. Linux gives 64 to 256 for devices that take 32 at once or more.",
)
QUEUE_PER_DEVICE_MAX = row(
    "QUEUE_PER_DEVICE_MAX",
    128,
    "requests",
    "Linux: block/blk-mq-sched.c, blk_mq_init_sched",
    "Linux gives a queue twice as many places as its device takes requests, of which it counts this many at most.",
)
FULL_QUEUE_LIMIT_MIN = row(
    "FULL_QUEUE_LIMIT_MIN",
    0.2,
    "share of the threads' time",
    CHOSEN,
    "A larger one that is full is a limit from this part on.",
)

# memory_short
SWAPPED_IN_MIN = row(
    "SWAPPED_IN_MIN",
    0.01,
    "share of the threads' time",
    CHOSEN,
    "Memory is short if submitting threads wait this part of their time for pages that had been swapped out, at least ...",
)
RECLAIM_ALONE_MIN = row(
    "RECLAIM_ALONE_MIN",
    0.2,
    "share of the threads' time",
    CHOSEN,
    "... without that, freeing memory is a limit from this part on: whoever streams through files frees pages all the time.",
)

# cut_requests
CUT_BELOW_KB = row(
    "CUT_BELOW_KB",
    128,
    "KiB",
    CHOSEN,
    "A max_sectors_kb from here on is nobody's mistake: it is what Linux fetches ahead at a time by itself.",
)
CUT_WAITING_MIN = row(
    "CUT_WAITING_MIN",
    0.2,
    "share of the operations' time",
    CHOSEN,
    "A lower one is to blame if operations wait this part of their time for pieces of it ...",
)
CUT_EPISODES_MIN = row(
    "CUT_EPISODES_MIN",
    5,
    "episodes",
    DESIGN_8,
    "... at this many times at least.",
)
CUT_OPERATIONS_MAX = row(
    "CUT_OPERATIONS_MAX",
    100_000,
    "operations",
    CHOSEN,
    "The first operations, of which the pieces are looked for.",
)

# reference
REFERENCE_SCORE_RATIO_MIN = row(
    "REFERENCE_SCORE_RATIO_MIN",
    2.0,
    "ratio",
    CHOSEN,
    "The array's own measure of its layout differs if it is at least this many times that of the other case.",
)
HOST_WAITED_MIN = row(
    "HOST_WAITED_MIN",
    0.8,
    "share of the slow operations' time",
    CHOSEN,
    "Where less of it passed in the device, the host had a part in it, too.",
)
REFERENCE_RATE_MAX = row(
    "REFERENCE_RATE_MAX",
    1.2,
    "ratio",
    CHOSEN,
    "Who does a fifth more per second than in the case it is compared with has another load, not a slower device.",
)
REFERENCE_SEGMENTS = row(
    "REFERENCE_SEGMENTS",
    8,
    "segments",
    CHOSEN,
    "A run is cut into this many segments; how much they differ stands for how much runs differ.",
)

# saturation
LITTLE_TOLERANCE = row(
    "LITTLE_TOLERANCE",
    0.10,
    "share",
    CHOSEN,
    "Little's law counts as fulfilled when throughput x latency is this close to the depth.",
)
TURN_SHARE_MAX = row(
    "TURN_SHARE_MAX",
    0.5,
    "share of all latency",
    CHOSEN,
    "A workload that keeps its rate is at a limit where its operations wait for their turn longer than this: its slots, not storage alone, set how long they take.",
)
SATURATED_SLOPE = row(
    "SATURATED_SLOPE",
    0.75,
    "power",
    CHOSEN,
    "Latency that grows at least with this power of the depth means that more depth brings nothing.",
)
SATURATION_SYNC_SHARE = row(
    "SATURATION_SYNC_SHARE",
    0.5,
    "share",
    CHOSEN,
    "Sync or flush operations that take this part of the time make the workload bound by them.",
)
FOREIGN_FILLED = row(
    "FOREIGN_FILLED",
    0.5,
    "share",
    CHOSEN,
    "Another program's slots stand empty at the block layer while it handles its completions. If it never goes beyond a depth that it often reaches, and fills this part of it, the depth binds.",
)
TURNS_AT_ONCE_MAX = row(
    "TURNS_AT_ONCE_MAX",
    0.7,
    "share",
    CHOSEN,
    "Threads take turns where their device has no more than this part of their calls in flight while one of them waits.",
)
TURNS_SLEPT_MIN = row(
    "TURNS_SLEPT_MIN",
    0.25,
    "share of the time of the calls",
    CHOSEN,
    "And where they sleep for that part of the time until another thread lets them go on.",
)
SERIAL_SHARE = row(
    "SERIAL_SHARE",
    0.5,
    "share",
    CHOSEN,
    "From this part of the time on a serial program is said to wait for its requests.",
)
FILLED_WINDOW_MIN = row(
    "FILLED_WINDOW_MIN",
    0.25,
    "share",
    CHOSEN,
    "A larger readahead is proposed where reads of the device are this part of what it may fetch at a time, on average: of small files it fetches the file.",
)
AHEAD_MIN = row(
    "AHEAD_MIN",
    2,
    "requests in flight per call that waits",
    CHOSEN,
    "From this number on, most of what a device works on was fetched ahead: how many calls wait says little of what it has in flight.",
)
SATURATION_REQUESTS_MIN = row(
    "SATURATION_REQUESTS_MIN",
    100,
    "requests",
    CHOSEN,
    "Fewer requests of a program say nothing about what it keeps in flight.",
)
COMPUTING_MIN = row(
    "COMPUTING_MIN",
    0.5,
    "share of the calls' time",
    CHOSEN,
    "What computes in its calls for this part of their time is limited by CPUs, and not by how many calls it has in flight.",
)
IN_MEMORY_MAX = row(
    "IN_MEMORY_MAX",
    0.1,
    "share",
    CHOSEN,
    "Calls that spend less than this part of their time with devices are answered from memory: how many are in flight says nothing of a device.",
)
SATURATION_SAMPLE_REQUESTS = row(
    "SATURATION_SAMPLE_REQUESTS", 100_000, "requests", CHOSEN, "Requests from which its depth is taken."
)

# written_before
WRITTEN_CALLS_MAX = row(
    "WRITTEN_CALLS_MAX", 500, "calls", CHOSEN, "Slow calls that are looked at, the longest ones."
)
WRITTEN_REQUESTS_MIN = row(
    "WRITTEN_REQUESTS_MIN",
    20,
    "requests",
    CHOSEN,
    "A call waited for older writes if at least this many were under way meanwhile ...",
)
WRITTEN_IDLE_MAX = row(
    "WRITTEN_IDLE_MAX",
    0.6,
    "share",
    CHOSEN,
    "... at no time without one for more than this part of its time ...",
)
WRITTEN_ONE_MAX = row(
    "WRITTEN_ONE_MAX",
    0.25,
    "share",
    CHOSEN,
    "... and none of them for more than this part of it: then that one held it.",
)
WRITTEN_OTHERS_MAX = row(
    "WRITTEN_OTHERS_MAX",
    0.1,
    "share",
    CHOSEN,
    "Of the writes meanwhile no more than this part of the time are another program's.",
)

# device_rate
PACE_TOLD_MIN = row(
    "PACE_TOLD_MIN",
    0.05,
    "share",
    CHOSEN,
    "The pace of a device limits a program that waits for it in this part of the time.",
)

PACE_OWN_MIN = row(
    "PACE_OWN_MIN",
    0.5,
    "share",
    CHOSEN,
    "More of the requests than this are the judged program's, or the kernel's for it.",
)

# stage_blame: what went on above the block layer
ASLEEP_TOLD_MIN = row(
    "ASLEEP_TOLD_MIN",
    0.2,
    "share",
    CHOSEN,
    "What threads slept in is reported from this part of slow operations' time on.",
)
HELD_BY_ONE_MIN = row(
    "HELD_BY_ONE_MIN",
    0.5,
    "share",
    CHOSEN,
    "Another program is named as the culprit if threads slept until it let them go on for this part of slow operations' time.",
)
BUSY_TOLD_MIN = row(
    "BUSY_TOLD_MIN",
    1.0,
    "requests",
    CHOSEN,
    "A device was busy meanwhile if it had at least this many in flight on average.",
)

# slow_requests
REQUESTS_PER_OPERATION_MIN = row(
    "REQUESTS_PER_OPERATION_MIN",
    1.5,
    "requests per operation",
    CHOSEN,
    "From this number on a slow request can hide in an operation; with fewer the operation itself stands apart.",
)
REQUESTS_LOOKED_UP_MAX = row(
    "REQUESTS_LOOKED_UP_MAX",
    20_000,
    "requests",
    CHOSEN,
    "Slow requests for which operations are looked up; of more every second, third and so on.",
)
FLUSH_COVERS_MIN = row(
    "FLUSH_COVERS_MIN",
    0.5,
    "share",
    CHOSEN,
    "A request waited for flushes that its device worked on for this part of its time ...",
)
FLUSH_AFTER_MAX = row(
    "FLUSH_AFTER_MAX",
    0.1,
    "share",
    CHOSEN,
    "... if the last of them had ended by this part of its time before it: one that is late by itself is so close to the end of a flush one time in ten.",
)

# flush_limit
FLUSH_OTHERS_MIN = row(
    "FLUSH_OTHERS_MIN",
    3.0,
    "requests per flush",
    CHOSEN,
    "Other requests that a device completes per flush: with fewer a silence of most of a flush is nothing special ...",
)
FLUSH_SILENCE_MIN = row(
    "FLUSH_SILENCE_MIN",
    0.75,
    "share",
    CHOSEN,
    "... and the part of a flush, in the median, in which it completes none of them: three at random moments leave half of it.",
)

# thread_limit
THREAD_BINDS_MIN = row(
    "THREAD_BINDS_MIN",
    1 / 3,
    "share",
    CHOSEN,
    "What a program's threads spend most of their time on binds if it is this part: without it they would be half as fast again.",
)
FEW_CALLS_BEYOND = row(
    "FEW_CALLS_BEYOND",
    50.0,
    "times the mean",
    CHOSEN,
    "Calls that take longer are one in fifty at most. Where they hold half of the time, or more, their length limits, and not their number.",
)
ROBBED_MAX = row(
    "ROBBED_MAX",
    0.5,
    "share",
    CHOSEN,
    "A program that other programs keep from the CPU for more of its time runs into no limit of its own.",
)
HELD_BELOW_MIN = row(
    "HELD_BELOW_MIN",
    0.5,
    "share",
    CHOSEN,
    "A thread that runs while its operations spend this part of their time with the devices only looks for their completion: what is in flight binds.",
)
LIMITING_DEVICE_MIN = row(
    "LIMITING_DEVICE_MIN",
    0.5,
    "share",
    CHOSEN,
    "A device that has this part of the time of the operations that set a workload's speed is not cleared, though none of its requests stands out.",
)
OWN_CPU_MIN = row(
    "OWN_CPU_MIN",
    0.5,
    "share",
    CHOSEN,
    "Threads crowd each other out if they have this part of the CPU time that the others of their program wait for.",
)
BEHIND_SYNC_TOLD = row(
    "BEHIND_SYNC_TOLD", 0.1, "share", CHOSEN, "Smaller parts of the time are not reported."
)

# late_servers
SERVED_BELOW_MIN = row(
    "SERVED_BELOW_MIN",
    0.5,
    "share",
    CHOSEN,
    "An operation was late at a software device for want of a CPU if its servers waited for one in this part of what it lost there.",
)

# own_bulk
BULK_BYTES_MIN = row(
    "BULK_BYTES_MIN", 1 << 17, "bytes", CHOSEN, "A request of at least this size is a large one ..."
)
BULK_SIZE_RATIO_MIN = row(
    "BULK_SIZE_RATIO_MIN",
    8.0,
    "ratio",
    CHOSEN,
    "... if it is larger than the device's median read or write by this factor ...",
)
BULK_ORDINARY_MAX = row(
    "BULK_ORDINARY_MAX",
    2.0,
    "ratio",
    CHOSEN,
    "... and took no longer than the median of its kind and size by this factor: else the device is slow, and not its load.",
)
BULK_COVERS_MIN = row(
    "BULK_COVERS_MIN",
    0.8,
    "share",
    CHOSEN,
    "An operation waited for large requests that the device served in this part of its time there ...",
)
BULK_ODDS_MIN = row(
    "BULK_ODDS_MIN",
    5.0,
    "ratio",
    CHOSEN,
    "... if slow episodes lie behind them more often than by chance by this factor (of the odds) ...",
)
BULK_CHANCE_MAX = row(
    "BULK_CHANCE_MAX", 0.01, "probability", DESIGN_8, "... and that many would hardly by chance."
)
BULK_REQUESTS_MAX = row(
    "BULK_REQUESTS_MAX", 1_000_000, "requests", CHOSEN, "Of more large requests none is looked at."
)
BULK_TOLD_MIN = row(
    "BULK_TOLD_MIN",
    0.01,
    "share of all latency",
    CHOSEN,
    "The verdict reports what such waits cost from here on.",
)

# served_others
SERVED_SILENCE_MAX = row(
    "SERVED_SILENCE_MAX",
    0.5,
    "share",
    CHOSEN,
    "A request was passed over if the disk was never silent for this part of its wait ...",
)
SERVED_OTHERS_MIN = row(
    "SERVED_OTHERS_MIN", 2, "requests", CHOSEN, "... in which it completed at least this many others."
)
SERVED_OPERATIONS_MAX = row(
    "SERVED_OPERATIONS_MAX",
    20_000,
    "operations",
    CHOSEN,
    "More slow operations are not looked at one by one.",
)
SERVED_REQUESTS_MAX = row(
    "SERVED_REQUESTS_MAX",
    2_000_000,
    "requests",
    CHOSEN,
    "Of a device with more the completions are not looked at.",
)
SERVED_SAMPLE_MAX = row(
    "SERVED_SAMPLE_MAX",
    1000,
    "operations",
    CHOSEN,
    "At most this many slow operations are examined to see whether the device stood still ...",
)
SERVED_TELLING_MIN = row(
    "SERVED_TELLING_MIN",
    5,
    "episodes",
    DESIGN_8,
    "... in this many separate episodes that are usable, at least: meanwhile there were other requests that the device could have served.",
)

# arm_seeks
ARM_FAR_BYTES = row(
    "ARM_FAR_BYTES",
    1 << 20,
    "bytes",
    CHOSEN,
    "A request that begins at least this far from the end of the one before lies elsewhere: a track holds about as much.",
)
ARM_RATIO_MIN = row(
    "ARM_RATIO_MIN",
    5.0,
    "x",
    CHOSEN,
    "A disk has an arm to move if requests elsewhere take at least this many times as long as requests that follow: on a drive that turns the ratio is 20 and more.",
)
ARM_ORDINARY_RATIO_MAX = row(
    "ARM_ORDINARY_RATIO_MAX",
    2.0,
    "x",
    CHOSEN,
    "Longer than this many times the longest tenth of them is no movement of the arm: a full stroke and a whole turn take less.",
)
ARM_TOLD_MIN = row("ARM_TOLD_MIN", 0.01, "share", CHOSEN, "Reported from this part of all latency on.")

# shared_arm
ARM_REQUESTS_MIN = row("ARM_REQUESTS_MIN", 10, "requests", CHOSEN, "A program with fewer is no load.")

# shared_vector
VECTOR_BLOCKS = row("VECTOR_BLOCKS", 32, "blocks", CHOSEN, "The unit of evidence: a block of time.")
VECTOR_OPERATIONS_MIN = row(
    "VECTOR_OPERATIONS_MIN", 100, "operations", CHOSEN, "Fewer on the affected CPUs say nothing."
)
VECTOR_SUFFERS = row(
    "VECTOR_SUFFERS",
    0.2,
    "share",
    CHOSEN,
    "A device suffers if the handler costs its operations this part of what it costs the worst one's.",
)
VECTOR_ONE_CPU = row(
    "VECTOR_ONE_CPU",
    0.8,
    "share",
    CHOSEN,
    'Interrupts "all go to one CPU" if it completes this part of all requests.',
)

# silent_device
SILENT_REQUESTS_MAX = row(
    "SILENT_REQUESTS_MAX",
    2_000_000,
    "requests",
    CHOSEN,
    "Requests of a device that are looked at, from the begin of the recording on.",
)
SILENT_KIND_MIN = row(
    "SILENT_KIND_MIN",
    100,
    "requests",
    CHOSEN,
    "From this many requests of one kind, size and depth on, their usual time is known; of rarer ones nothing is expected.",
)
SILENT_DEPTH_SHARE_MIN = row(
    "SILENT_DEPTH_SHARE_MIN",
    0.1,
    "share",
    CHOSEN,
    "A depth with a smaller part of a kind and size occurred for moments only, pauses perhaps: the usual time is then that of all depths together.",
)
SILENCES_MAX = row(
    "SILENCES_MAX",
    2000,
    "silences",
    CHOSEN,
    "At most this many are examined one by one: those in which most requests waited longest.",
)
SILENT_UNDER_WAY_MIN = row(
    "SILENT_UNDER_WAY_MIN", 2, "requests", CHOSEN, "At least this many have to be under way."
)
SILENT_PAUSE_P = row(
    "SILENT_PAUSE_P",
    0.01,
    "probability",
    CHOSEN,
    "A silence is a pause if, among all silences of the device, the chance of one as unlikely is at most this ...",
)
SILENT_LONGER = row(
    "SILENT_LONGER",
    2.0,
    "ratio",
    CHOSEN,
    "... and if it is this many times as long as the one in which a request usually finds itself: a device may complete in batches, and then what is under way ends together.",
)
SILENT_CHANCE_OCTAVES = row(
    "SILENT_CHANCE_OCTAVES",
    (4.0, 8.0),
    "octaves",
    CHOSEN,
    "Stretches of chances between which a group of pauses stands out, in octaves (of the chance, which halves): pauses differ in what is under way.",
)
SILENT_APART_P = row(
    "SILENT_APART_P",
    1e-4,
    "probability",
    CHOSEN,
    "And it has to be this unlikely: where one request is served after the other, a single long one makes many unlikely at once.",
)
SILENT_UNLIKELIEST = row(
    "SILENT_UNLIKELIEST", 300.0, "-ln of a chance", CHOSEN, "Larger values count as this one."
)
SILENT_LIKELY = row("SILENT_LIKELY", 0.1, "-ln of a chance", CHOSEN, "Smaller values count as certain.")
PAUSES_MIN = row("PAUSES_MIN", 5, "pauses", DESIGN_8, "Fewer accuse nobody ...")
SILENT_SHARE_MIN = row(
    "SILENT_SHARE_MIN",
    0.002,
    "share of all latency",
    CHOSEN,
    "... nor do pauses that are a smaller part, whatever the 99th percentile.",
)
SILENT_FAR = row(
    "SILENT_FAR",
    5.0,
    "ratio",
    CHOSEN,
    "Pauses this many times as long as usual accuse however little time they take together; shorter ones, from two times on, may be how a burst is served.",
)
SILENT_TIME_MIN = row(
    "SILENT_TIME_MIN",
    0.005,
    "share of the run",
    CHOSEN,
    "... and accuse if they take this part of the time: a healthy virtual disk paused for 7 to 18 ms in 12 s, which was 5 to 7 % of a database's latency.",
)
PAUSES_TOLD = row(
    "PAUSES_TOLD", 20, "pauses", CHOSEN, "The evidence lists this number of the longest pauses."
)

# slow_host
HOST_EFFECT_MIN = row(
    "HOST_EFFECT_MIN",
    math.log(1.2),
    "log ratio",
    CHOSEN,
    "Hosts do different work; one is accused only if it is slower than the others by this.",
)
HOSTS_MIN = row("HOSTS_MIN", 8, "hosts", CHOSEN, "Fewer are no peers of each other.")

# slow_member
MEMBER_BLOCKS = row("MEMBER_BLOCKS", 168, "blocks", CHOSEN, "Time blocks of single operations, at most.")
MEMBER_OPERATIONS_PER_BLOCK = row(
    "MEMBER_OPERATIONS_PER_BLOCK",
    5,
    "operations",
    CHOSEN,
    "A device must have this many in every block on average.",
)
MEMBER_OPERATIONS_TYPICAL = row(
    "MEMBER_OPERATIONS_TYPICAL",
    20,
    "operations",
    CHOSEN,
    "From this many operations of a stratum on, a device has a typical latency there.",
)
MEMBER_DEVICES_TYPICAL = row(
    "MEMBER_DEVICES_TYPICAL",
    3,
    "devices",
    CHOSEN,
    "A stratum compares devices if at least this many have a typical latency there: the middle of two is pulled by either.",
)
MEMBER_PAIR_EFFECT_MIN = row(
    "MEMBER_PAIR_EFFECT_MIN",
    math.log(1.5),
    "log ratio",
    CHOSEN,
    "The slower one of a pair needs this much: how far two drives differ by nature, no others tell.",
)
MEMBER_CLIP = row(
    "MEMBER_CLIP",
    8.0,
    "times typical",
    CHOSEN,
    "Beyond this an operation is an outlier and counts no more (stage_blame looks at those).",
)

# slow_member_sampled
WATCHED_COST_MAX = row(
    "WATCHED_COST_MAX",
    0.1,
    "share of its own mean latency",
    DESIGN_8,
    "A drive that costs less than this is watched, not accused.",
)
SAMPLED_TOLD_MAX = row(
    "SAMPLED_TOLD_MAX",
    100,
    "candidates",
    CHOSEN,
    "At most this many are reported in full; the others are counted.",
)

# stage_blame
OWN_STOPPED_MAX = row(
    "OWN_STOPPED_MAX",
    0.1,
    "share",
    CHOSEN,
    "What a program spends between its calls is its own doing, unless its threads were kept from running for this part of it.",
)
ORDINARY_SHARE_TOLD = row(
    "ORDINARY_SHARE_TOLD",
    0.01,
    "share of all latency",
    CHOSEN,
    "Waits of a time slice's length are mentioned from here on.",
)
EVENT_NEAR = row(
    "EVENT_NEAR",
    0.02,
    "share",
    CHOSEN,
    "Operations ended (began) together if it was within this part of their typical length.",
)
FLUSH_PART_TOLD = row(
    "FLUSH_PART_TOLD",
    0.5,
    "share",
    CHOSEN,
    "Flush commands are named where they are this part of what slow operations spent in the stage.",
)
FLUSH_OPERATIONS_SHOWN = row(
    "FLUSH_OPERATIONS_SHOWN",
    10,
    "operations",
    CHOSEN,
    "At most this many slow operations are shown with their flush commands.",
)
UNTOUCHED_MIN = row(
    "UNTOUCHED_MIN",
    0.1,
    "share",
    CHOSEN,
    "From this part of the operations on, those apart from all slow episodes say what operations take without.",
)
STRETCH_OPERATIONS_MIN = row(
    "STRETCH_OPERATIONS_MIN",
    30,
    "operations",
    CHOSEN,
    "From this many slow operations on it is said when they were, if that was a stretch in which nearly all were slow. One in 30 at either end may lie elsewhere.",
)
ONE_KIND_MOSTLY = row(
    "ONE_KIND_MOSTLY",
    0.9,
    "share",
    CHOSEN,
    "If this part of the slow operations is of one kind, the claim speaks of that kind.",
)

# steady_state
STEADY_ROUNDS = row("STEADY_ROUNDS", 5, "rounds", "SNIA PTS", "Rounds of the measured window.")
STEADY_RANGE_MAX = row(
    "STEADY_RANGE_MAX", 0.20, "share of the mean", "SNIA PTS", "The range of the rounds is at most this."
)
STEADY_EXCURSION_MAX = row(
    "STEADY_EXCURSION_MAX",
    0.10,
    "share of the mean",
    "SNIA PTS",
    "The fitted line rises or falls by at most this.",
)
STEADY_SECONDS_MIN = row(
    "STEADY_SECONDS_MIN",
    30.0,
    "s",
    CHOSEN,
    "Shorter runs are not judged: a fraction of a second of noise would be called drift.",
)
STEADY_IDLE_PART = row(
    "STEADY_IDLE_PART",
    0.01,
    "share",
    CHOSEN,
    "A second is idle with less than this part of the median second's operations.",
)
STEADY_IDLE_TOLD = row(
    "STEADY_IDLE_TOLD", 0.02, "share", CHOSEN, "Idle seconds are reported from this part of the run on."
)

# stolen_cpu
STOLEN_TOLD_MIN = row(
    "STOLEN_TOLD_MIN", 0.02, "share", CHOSEN, "From this part of the wanted CPU time on steal is mentioned."
)
STOLEN_ACCUSED_MIN = row(
    "STOLEN_ACCUSED_MIN",
    0.05,
    "share",
    CHOSEN,
    "And from this part on it accuses: less is a few steps of the kernel's counter.",
)
STOLEN_PRESENT_MIN = row(
    "STOLEN_PRESENT_MIN",
    0.1,
    "share",
    CHOSEN,
    "A time bin in which this part of the wanted CPU time was stolen counts as one with steal.",
)
STOLEN_BUSIER = row(
    "STOLEN_BUSIER",
    1.2,
    "ratio",
    CHOSEN,
    "If this many times as many operations begin while CPUs are stolen, their own load may be what makes them slower, and what makes the machine want CPUs that it does not get.",
)
STOLEN_EXPLAINED_NS = row(
    "STOLEN_EXPLAINED_NS",
    20_000_000,
    "ns",
    CHOSEN,
    "An operation that lost time in a stage that needs a CPU is explained by steal around it (EXPLAINED_PART) if it lost at least this much (two steps of the kernel's counter) ...",
)
STOLEN_PART = row(
    "STOLEN_PART", 0.3, "share", CHOSEN, "... or if this part of the wanted time was stolen there."
)

# stripe_wait
STRIPE_SLOW_RATIO = row(
    "STRIPE_SLOW_RATIO", 2.0, "times the median", CHOSEN, "A stripe is slow from here on."
)
STRIPES_MIN = row("STRIPES_MIN", 30, "stripes", CHOSEN, "Fewer slow ones say nothing.")
STRIPE_HOLDS_UP_MIN = row(
    "STRIPE_HOLDS_UP_MIN",
    2.0,
    "ratio",
    CHOSEN,
    "The part of slow stripes that a member holds up must be at least this many times its part in all stripes.",
)
STRIPE_LINKS_SAMPLE = row(
    "STRIPE_LINKS_SAMPLE",
    300_000,
    "links",
    CHOSEN,
    "Looked at to learn which devices are stacked, and what they are made of.",
)
STRIPE_SLOW_MAX = row(
    "STRIPE_SLOW_MAX", 300_000, "stripes", CHOSEN, "More slow ones are thinned out by a hash of their id."
)

# submitter_gap
SILENCE_RATIO_MIN = row(
    "SILENCE_RATIO_MIN",
    4.0,
    "times typical",
    CHOSEN,
    "Silences this many times as long as an operation, and longer than another thread's turn, are judged.",
)
SILENCE_ROUNDS = row(
    "SILENCE_ROUNDS", 1999, "rounds", CHOSEN, "Rounds in which silences are put elsewhere nearby."
)
STOPS_MIN = row(
    "STOPS_MIN",
    3,
    "stops",
    CHOSEN,
    "At least this many stops that were seen accuse for the sake of the 99th percentile.",
)
GAP_TOGETHER_MAX = row(
    "GAP_TOGETHER_MAX",
    0.05,
    "share of the longer one",
    CHOSEN,
    "Silences that follow each other within this part of their length are one.",
)
GAP_STATE_MIN = row(
    "GAP_STATE_MIN",
    0.2,
    "share",
    CHOSEN,
    "A state of silences that hold less of the silent time is not named.",
)

# throttle
DIRTY_BUSY_MAX = row(
    "DIRTY_BUSY_MAX",
    0.5,
    "share of the run",
    CHOSEN,
    "Writers that are held back for dirty pages while disks had writes to do for less than this wait for the limit, and not for the disks.",
)
THROTTLE_MEANWHILE_MIN = row(
    "THROTTLE_MEANWHILE_MIN",
    0.99,
    "share",
    CHOSEN,
    "Writes that are held back while requests that nobody waits for are in flight in this part of the time wait for those ...",
)
THROTTLE_MOMENTS = row("THROTTLE_MOMENTS", 256, "moments", CHOSEN, "... sampled at this many moments.")
WHOLE_RUN_EDGE = row(
    "WHOLE_RUN_EDGE",
    0.1,
    "share of the run",
    CHOSEN,
    "What begins this late, or ends this early, did not go on all the time: the claim gives its begin or end.",
)
PLACES = row(
    "PLACES",
    16,
    "parts",
    CHOSEN,
    "Verdicts say where slow operations lie on a device in this many parts of it, as far as operations reach.",
)
STRETCH_EDGE = row(
    "STRETCH_EDGE",
    0.1,
    "share of the stopped time",
    CHOSEN,
    "... or that of a stretch without this part of it on either side, where that is less than half as long.",
)
THROTTLED_BESIDE_MIN = row(
    "THROTTLED_BESIDE_MIN",
    0.5,
    "share",
    CHOSEN,
    "A program that waits for itself waits for the CPU limit if the limit kept one of its threads from running for this part of the wait.",
)

# uncached_tail
TAIL_EACH_TIME = row(
    "TAIL_EACH_TIME",
    0.8,
    "share",
    CHOSEN,
    'A part counts as "each time" if at least this part of the reads of that size wait for it.',
)
TAIL_READS_MIN = row("TAIL_READS_MIN", 30, "reads", CHOSEN, "Fewer of a size say nothing.")
TAIL_PART_MAX = row(
    "TAIL_PART_MAX",
    0.9,
    "share",
    CHOSEN,
    "A tail is at most this part of its request: something was fetched ahead.",
)
TAIL_UNUSUAL = row(
    "TAIL_UNUSUAL",
    4.0,
    "times",
    CHOSEN,
    "Who waits for a tail this many times as long as usual, and for a request that takes the device as much longer, waits for the device.",
)
TAIL_SHARE_MIN = row(
    "TAIL_SHARE_MIN",
    0.05,
    "share",
    DESIGN_8,
    "Smallest effect: part of the time in reads, and of the operations that they belong to.",
)

# outliers
EXPLAINED_QUANTILE_MIN = row(
    "EXPLAINED_QUANTILE_MIN",
    0.99,
    "quantile",
    CHOSEN,
    "Operations beyond a broken expectation are explained one by one from this quantile on: below, they are no exceptions ...",
)
BEYOND_PART_MAX = row(
    "BEYOND_PART_MAX",
    0.05,
    "share",
    CHOSEN,
    "... and up to this part of all operations: where more are beyond it, the body is, and what it spends its time on is asked for.",
)
BEYOND_GROUPS_MAX = row(
    "BEYOND_GROUPS_MAX",
    3,
    "causes",
    CHOSEN,
    "Of the operations beyond an expectation, at most this many causes are reported, the costliest first.",
)

# verdict: causes, caveats, clearing, solve, slowest
MEASURED_TOLD_MIN = row(
    "MEASURED_TOLD_MIN",
    0.5,
    "share",
    CHOSEN,
    "A measured claim is left out if findings explain this part of its operations.",
)
SLOWEST_TOLD = row(
    "SLOWEST_TOLD", 5, "episodes", "DESIGN 7", "The number of slowest episodes that a verdict lists."
)
USUAL_MAX = row(
    "USUAL_MAX",
    2.0,
    "1",
    CHOSEN,
    "Of the slowest episodes, one of less than this many times what is typical of operations like it, and that lost most in another stage than its longest, is reported as usual.",
)
SLOWEST_OP_IDS_MAX = row(
    "SLOWEST_OP_IDS_MAX", 20, "operations", CHOSEN, "At most this many operations of each of them are named."
)
SLOW_ONLY_GROUPS_TOLD = row(
    "SLOW_ONLY_GROUPS_TOLD",
    5,
    "groups",
    CHOSEN,
    "Of logs with slow operations alone, a verdict lists at most this many kinds, programs and devices.",
)
WORSE_MIN = row(
    "WORSE_MIN",
    0.2,
    "share",
    DESIGN_8,
    "Outliers make a case slow if they make the 99th percentile or the throughput worse by this part.",
)
MET_MIN = row(
    "MET_MIN",
    0.5,
    "share",
    CHOSEN,
    "What comes and goes is the reason of slow operations if it was there in this part of them.",
)
REASON_PART_MIN = row(
    "REASON_PART_MIN",
    0.05,
    "share of what the accused one costs",
    CHOSEN,
    "A cause that is too small by itself is reported as the reason of something that is accused if it costs this part of it.",
)
PLAYED_AGAIN_MIN = row(
    "PLAYED_AGAIN_MIN",
    1.5,
    "ratio",
    CHOSEN,
    "Findings of a workload that falls behind stand in the order of what it does to play it again without each, if that is this much more of the first than of the second.",
)
MERGED_SHARE_MAX = row(
    "MERGED_SHARE_MAX",
    0.999,
    "share of all latency",
    CHOSEN,
    "No share is taken to be more: what is left without it would be nothing.",
)
CAVEAT_UNKNOWN_MIN = row(
    "CAVEAT_UNKNOWN_MIN", 0.01, "share of all latency", CHOSEN, "Unattributed latency that is worth a caveat."
)
CAVEAT_LEVELS_TOLD = row(
    "CAVEAT_LEVELS_TOLD", 4, "changes", CHOSEN, "Changes of a sample's size that are listed."
)
CLEARED_CONFIDENCE = row("CLEARED_CONFIDENCE", 0.95, "probability", CHOSEN, "Confidence of what clears.")
CLEARED_OPERATIONS_MIN = row("CLEARED_OPERATIONS_MIN", 300, "operations", CHOSEN, "Fewer clear nothing.")
CLEARED_FEW = row(
    "CLEARED_FEW",
    0.05,
    "share",
    CHOSEN,
    "Something may be cleared although some of its operations were slow, if they are this few compared with the slow operations that are to be explained.",
)
CLEARED_QUANTILE_MIN = row(
    "CLEARED_QUANTILE_MIN",
    0.99,
    "quantile",
    CHOSEN,
    "With exceptions, clearing means at least this part of the blocks of time.",
)
CLEARED_QUANTILE_LEAST = row(
    "CLEARED_QUANTILE_LEAST",
    0.5,
    "quantile",
    CHOSEN,
    "Without exceptions it means at least this part of them: a bound that may hold in fewer than every other block clears nothing.",
)
CLEARED_BLOCK_NS_MIN = row(
    "CLEARED_BLOCK_NS_MIN",
    1_000_000,
    "ns",
    CHOSEN,
    "What happens within a block of time is one piece of evidence. A block has at least this length ...",
)
CLEARED_BLOCK_TIMES = row(
    "CLEARED_BLOCK_TIMES",
    10,
    "times the bound",
    CHOSEN,
    "... and at least this many times the length of what is bounded: whatever was in flight together lies in one block, or in two.",
)
LOSS_MIN = row(
    "LOSS_MIN",
    0.2,
    "share",
    DESIGN_8,
    "From this loss on it is asked whether a cause is large enough for it ...",
)
TOO_SMALL_MAX = row(
    "TOO_SMALL_MAX",
    0.5,
    "share",
    CHOSEN,
    "... and one that explains less than this part of it, at most, is rejected in words.",
)
VERDICT_OPERATIONS_MIN = row(
    "VERDICT_OPERATIONS_MIN", 100, "operations", CHOSEN, "With fewer there is no verdict."
)
OBSERVED_MIN = row(
    "OBSERVED_MIN", 0.001, "share of all latency", CHOSEN, "Smaller effects are not even mentioned."
)
BACKLOG_SHARE_MIN = row(
    "BACKLOG_SHARE_MIN",
    0.5,
    "share",
    CHOSEN,
    "Operations are counted from their submit on if they waited this part of their time for a free slot ...",
)
BACKLOG_FULL_MIN = row(
    "BACKLOG_FULL_MIN", 0.5, "share", CHOSEN, "... while this part of all slots was taken."
)

# misaligned, far_node
GROUPS_RATIO_MIN = row(
    "GROUPS_RATIO_MIN",
    1.2,
    "ratio",
    CHOSEN,
    "Of two matched groups of operations one must take this much longer.",
)
MISALIGNED_BLOCK_BYTES = row(
    "MISALIGNED_BLOCK_BYTES",
    4096,
    "bytes",
    CHOSEN,
    "The physical block of a device that reports a smaller one, or none: that of the drives of today.",
)
NODE_THREADS_RATIO_MIN = row(
    "NODE_THREADS_RATIO_MIN",
    1.5,
    "ratio",
    CHOSEN,
    "The same where each thread stays on its node: threads differ by themselves, too.",
)

# narrow_link
LINK_REQUESTS_MIN = row("LINK_REQUESTS_MIN", 200, "requests", CHOSEN, "Fewer requests give no rate.")
LINK_WINDOW = row(
    "LINK_WINDOW", 16, "requests", CHOSEN, "The rate of a link is taken over this many requests in a row."
)
LINK_EFFICIENCY_MIN = row(
    "LINK_EFFICIENCY_MIN",
    0.7,
    "share of the link's rate",
    "PCI Express Base Specification 4.0, 2.2: headers of 24 to 28 bytes for each 128 or 256 bytes of data",
    "A full link carries at least this part of its rate as data, ...",
)
LINK_EFFICIENCY_MAX = row(
    "LINK_EFFICIENCY_MAX", 1.0, "share of the link's rate", "what a link carries", "... and never more."
)
LINK_ALWAYS_MIN = row(
    "LINK_ALWAYS_MIN",
    0.5,
    "share of the requests",
    CHOSEN,
    "A link that is full for more of them leaves none that did not wait.",
)

# slower_at_times
AT_TIMES_BLOCKS = row(
    "AT_TIMES_BLOCKS", 192, "blocks", CHOSEN, "Parts of the time in which two levels are looked for, at most."
)
AT_TIMES_REQUESTS = row(
    "AT_TIMES_REQUESTS",
    16,
    "requests",
    CHOSEN,
    "A part of the time holds this many requests of a device on average: then a change of 15 % stands out of one that varies by 40 %.",
)
AT_TIMES_PLACES = row(
    "AT_TIMES_PLACES", 16, "places", CHOSEN, "Equal parts of the range of a device that was used."
)

# slow_part
SLOW_PART_RATIO_MIN = row(
    "SLOW_PART_RATIO_MIN",
    4.0,
    "times",
    CHOSEN,
    "A part of a device takes this many times as long as the rest: the begin and the end of a rotating disk differ by 2, fast and slow cells of flash by 3.",
)
SLOW_PART_ALONE_MIN = row(
    "SLOW_PART_ALONE_MIN",
    0.9,
    "share of the requests",
    CHOSEN,
    "What was asked for once may be slow for what happens then: nothing does that is seen if this part of what was asked for meanwhile lies there.",
)
SLOW_PART_BELOW_MIN = row(
    "SLOW_PART_BELOW_MIN",
    0.5,
    "share of the time",
    CHOSEN,
    "A loop device only passes on what the disk under it does if that is at work in this part of the time of the slow reads.",
)
SLOW_PART_ASKED = row(
    "SLOW_PART_ASKED",
    1000,
    "reads",
    CHOSEN,
    "Of this many it is asked whether they are of files, or of the device itself.",
)
SLOW_PART_WRITTEN_MIN = row(
    "SLOW_PART_WRITTEN_MIN",
    0.5,
    "share of the places",
    CHOSEN,
    "Of a device without a file system nobody knows where data are: the other places have some if this part of them was written in the recording.",
)

# slower_since
NEWCOMER_IN_FLIGHT_MIN = row(
    "NEWCOMER_IN_FLIGHT_MIN",
    0.5,
    "requests",
    CHOSEN,
    "Who came to a device is why it is slower since if it keeps this many requests in flight there on average.",
)
NEWCOMER_OFF_MAX = row(
    "NEWCOMER_OFF_MAX",
    0.05,
    "share",
    CHOSEN,
    "It came at that moment, and stayed to the end, if its requests begin and end this near to both, in parts of the run; a change is known to one of 48 parts.",
)
NEWCOMER_OUTSIDE = row(
    "NEWCOMER_OUTSIDE",
    0.01,
    "share",
    CHOSEN,
    "All but this part of its requests, at both ends, lie between its begin and its end: who looks at a disk once in a while has not come then.",
)
SINCE_CELL_MIN = row(
    "SINCE_CELL_MIN",
    3,
    "requests",
    CHOSEN,
    "At least this many requests of one device, kind and size make a block's median.",
)
SINCE_PRESENT_MIN = row(
    "SINCE_PRESENT_MIN",
    0.8,
    "share of the blocks",
    CHOSEN,
    "Requests of a size are compared if they occur in this part of the blocks: a mix that changes is no change of the device.",
)
SINCE_TIME_PART = row(
    "SINCE_TIME_PART",
    0.5,
    "share of the time in the device",
    CHOSEN,
    "A device changed if the requests that take longer since make this part of its time: most of what it does.",
)
SINCE_DEVICES_PART = row(
    "SINCE_DEVICES_PART",
    0.8,
    "share of the devices",
    CHOSEN,
    "All devices changed together if at least this part of them did.",
)
SINCE_TOGETHER_BLOCKS = row(
    "SINCE_TOGETHER_BLOCKS", 2, "blocks", CHOSEN, "Changes so near each other are at the same time."
)
SINCE_WEIGHTS = row(
    "SINCE_WEIGHTS",
    (0.5, 1.0),
    "weight of requests",
    CHOSEN,
    "A change is looked for in blocks equal in this mix of requests and time, and where there is none in blocks equal in requests.",
)

# visitor
VISITOR_AROUND_MIN = row(
    "VISITOR_AROUND_MIN",
    0.1,
    "share",
    CHOSEN,
    "A visit, the time before it and the time after it each take this part of the run: what happens at the edges of a recording has nothing to be compared with.",
)
VISITOR_BLOCKS = row(
    "VISITOR_BLOCKS",
    8,
    "blocks",
    CHOSEN,
    "Parts of a visit; its program begins or ends requests in each of them, and the time around it is cut into parts as long.",
)
VISITOR_UNLIKE_MAX = row(
    "VISITOR_UNLIKE_MAX",
    0.125,
    "share",
    CHOSEN,
    "This part of the blocks of a visit may be as quick as the time around it, and of the blocks around it as slow: one of eight.",
)
VISITOR_KIND_MIN = row(
    "VISITOR_KIND_MIN",
    20,
    "requests",
    CHOSEN,
    "Own requests of a kind and size are compared if each of the three periods (before, during and after a visit) has this number; a visit has as many of the other program.",
)
VISITOR_RATIO_MIN = row(
    "VISITOR_RATIO_MIN",
    1.5,
    "ratio",
    CHOSEN,
    "Own requests take this many times as long during a visit as before and after it.",
)
VISITOR_BACK_MAX = row(
    "VISITOR_BACK_MAX",
    0.25,
    "share",
    CHOSEN,
    "They are back at their old level if before and after differ by this part of the rise (of logarithms) at most.",
)
VISITOR_ONSET_MAX = row(
    "VISITOR_ONSET_MAX",
    0.1,
    "blocks",
    CHOSEN,
    "Who stays has made own requests slow if they become so within this part of a block of its stay, or with the second request: a level that changes by itself seldom does so as near.",
)
VISITOR_PART_MIN = row(
    "VISITOR_PART_MIN",
    0.5,
    "share",
    CHOSEN,
    "A visitor begins this part of the requests or bytes of its time, and this part of what is in flight is its.",
)
VISITOR_MORE_MAX = row(
    "VISITOR_MORE_MAX",
    1.5,
    "ratio",
    CHOSEN,
    "Where the judged program asks for this many times as much during a visit as around it, it may be in its own way.",
)
VISITOR_RUN = row(
    "VISITOR_RUN",
    9,
    "requests",
    CHOSEN,
    "Own requests have become slow where the first of this number in a row is, and most of them are.",
)
