"""The picture of each finding.

A new picture is one file in this folder (see `base`) and one line below. `docs/reference/report.md` shows them.
"""

from __future__ import annotations

from whodisk.findings import Finding
from whodisk.report.pictures import (
    layout_map,
    members,
    moments,
    request_map,
    silences,
    sweep,
    tier_waterfall,
    vectors,
)
from whodisk.report.pictures.base import Drawn, Look, Picture

#: Detector -> its pictures, in the order in which they are shown.
PICTURES: dict[str, tuple[Picture, ...]] = {
    "arm_seeks": (moments.PICTURE,),
    "background_work": (moments.PICTURE,),
    "burst": (moments.PICTURE,),
    "cache_misses": (request_map.PICTURE, moments.PICTURE),
    "cpu_delay": (moments.PICTURE,),
    "crowded_device": (moments.PICTURE,),
    "cut_requests": (moments.PICTURE,),
    "device_errors": (moments.PICTURE, members.PICTURE),
    "device_rate": (moments.PICTURE,),
    "far_node": (moments.PICTURE,),
    "full_queue": (moments.PICTURE,),
    "late_servers": (moments.PICTURE,),
    "held_outside": (moments.PICTURE,),
    "layout": (layout_map.PICTURE, sweep.PICTURE),
    "masked_tier": (request_map.PICTURE,),
    "member_tail": (members.PICTURE,),
    "met_requests": (moments.PICTURE,),
    "memory_short": (moments.PICTURE,),
    "misaligned": (moments.PICTURE,),
    "narrow_link": (members.PICTURE, moments.PICTURE),
    "neighbour": (moments.PICTURE,),
    "outliers": (moments.PICTURE,),
    "over_represented": (moments.PICTURE,),
    "overtaken": (moments.PICTURE,),
    "own_bulk": (moments.PICTURE,),
    "own_turns": (moments.PICTURE,),
    "prefetch": (request_map.PICTURE, tier_waterfall.PICTURE),
    "saturation": (sweep.PICTURE, moments.PICTURE),
    "shared_arm": (moments.PICTURE,),
    "shared_vector": (vectors.PICTURE, members.PICTURE),
    "silent_device": (moments.PICTURE,),
    "slow_host": (members.PICTURE,),
    "slow_member": (members.PICTURE,),
    "slow_member_sampled": (members.PICTURE,),
    "slow_part": (moments.PICTURE,),
    "slow_requests": (moments.PICTURE,),
    "slower_at_times": (members.PICTURE, moments.PICTURE),
    "slower_since": (members.PICTURE, moments.PICTURE),
    "stage_blame": (moments.PICTURE,),
    "steady_state": (moments.PICTURE,),
    "stolen_cpu": (moments.PICTURE,),
    "stripe_wait": (members.PICTURE,),
    "stuck_device": (members.PICTURE,),
    "submitter_gap": (silences.PICTURE,),
    "throttle": (moments.PICTURE,),
    "uncached_tail": (request_map.PICTURE, tier_waterfall.PICTURE, sweep.PICTURE),
    "visitor": (moments.PICTURE,),
}


def draw(look: Look, finding: Finding) -> list[tuple[Picture, Drawn]]:
    """The pictures of a finding; the slowest moments where the case has not what its own would need.

    What is to blame inside a device is seen beside that device's peers, whichever detector found it.
    """
    pictures = PICTURES.get(finding.detector, (moments.PICTURE,))
    because = finding.culprit.because_of or ""
    if finding.culprit.kind in {"device", "stage"} and because.startswith("device:"):
        pictures = (members.PICTURE, *(picture for picture in pictures if picture is not members.PICTURE))
    drawn = [(picture, found) for picture in pictures if (found := picture.draw(look, finding)) is not None]
    if drawn:
        return drawn
    found = moments.PICTURE.draw(look, finding)
    return [(moments.PICTURE, found)] if found is not None else []
