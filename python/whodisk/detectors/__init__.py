"""The registry: a detector is one file and one line here.

The order matters: what an earlier detector explains is not blamed again by a later one, so the more
specific ones come first.
"""

from __future__ import annotations

from whodisk.detectors import (
    background_work,
    burst,
    cache_misses,
    cpu_delay,
    crowded_device,
    device_errors,
    device_rate,
    layout,
    masked_tier,
    member_tail,
    neighbour,
    outliers,
    over_represented,
    prefetch,
    saturation,
    shared_arm,
    shared_vector,
    silent_device,
    slow_host,
    slow_member,
    slow_member_sampled,
    stage_blame,
    steady_state,
    stolen_cpu,
    stripe_wait,
    submitter_gap,
    throttle,
    uncached_tail,
)
from whodisk.detectors.base import Detector

DETECTORS: tuple[Detector, ...] = (
    device_rate.DETECTOR,
    uncached_tail.DETECTOR,
    cache_misses.DETECTOR,
    prefetch.DETECTOR,
    layout.DETECTOR,
    shared_vector.DETECTOR,
    device_errors.DETECTOR,
    throttle.DETECTOR,
    cpu_delay.DETECTOR,
    submitter_gap.DETECTOR,
    stolen_cpu.DETECTOR,
    over_represented.DETECTOR,
    stage_blame.DETECTOR,
    slow_member_sampled.DETECTOR,
    slow_host.DETECTOR,
    slow_member.DETECTOR,
    member_tail.DETECTOR,
    silent_device.DETECTOR,
    stripe_wait.DETECTOR,
    background_work.DETECTOR,
    crowded_device.DETECTOR,
    neighbour.DETECTOR,
    shared_arm.DETECTOR,
    burst.DETECTOR,
    saturation.DETECTOR,
    masked_tier.DETECTOR,
    steady_state.DETECTOR,
    outliers.DETECTOR,
)
