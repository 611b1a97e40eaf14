"""Hosts that are alike: by their load, by what they hold, and by how the most of them behave."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from whodisk.evidence.thresholds import (
    KIND_APART,
    KIND_DEVICES,
    KIND_FEW_PART,
    KIND_HOSTS_MIN,
    KIND_HOSTS_PART,
    KIND_LOAD,
)
from whodisk.statistics.stats import Floats, Ints


@dataclass(frozen=True)
class HostFacts:
    """What is known of each host, one array element each; logs, NaN where it was not observed."""

    devices: Floats
    #: Median log load, and how far its low times (the 10 % quantile) lie below it.
    load: Floats
    load_swing: Floats
    #: The same of log latency, without what the load explains.
    level: Floats
    swing: Floats


@dataclass(frozen=True)
class Kind:
    """Hosts that are peers of each other: those that set the kind, and those that have its load but behave otherwise."""

    usual: Ints
    others: Ints

    @property
    def hosts(self) -> Ints:
        return np.sort(np.concatenate((self.usual, self.others)))


def host_kinds(facts: HostFacts) -> tuple[list[Kind], Ints]:
    """The kinds of hosts, and hosts without peers.

    Hosts that behave alike (level and swing of latency) under the same load are a way to be, if they are many: a cluster of theirs, a model. A
    few that behave otherwise under the load of such a kind are its odd ones, whatever made them so. Nobody else has peers.
    """
    count = len(facts.devices)
    alike = _linked(
        _distances([(facts.devices, KIND_DEVICES), (facts.load, KIND_LOAD), (facts.load_swing, KIND_LOAD)])
    )
    kinds: list[Kind] = []
    lonely = np.ones(count, np.bool_)
    for number in range(int(alike.max()) + 1):
        mine = np.flatnonzero(alike == number)
        behave = _linked(_distances([(facts.level[mine], KIND_APART), (facts.swing[mine], KIND_APART)]))
        sizes = np.bincount(behave)
        large = sizes >= max(KIND_HOSTS_MIN, KIND_HOSTS_PART * len(mine))
        if not large.any():
            continue
        ways = [mine[behave == way] for way in np.flatnonzero(large)]
        # Neither many nor few: they may be of another kind, and nobody knows.
        unknown = ~large & (sizes > max(1.0, KIND_FEW_PART * len(mine)))
        odd = mine[~(large | unknown)[behave]]
        # An odd host belongs to the quickest way to be that it could have come from: the nearest one below it, else the nearest.
        of_way: list[list[int]] = [[] for _ in ways]
        middles = np.array([float(np.median(facts.level[way])) for way in ways])
        for host in odd.tolist():
            above = facts.level[host] - middles
            way = (
                int(np.argmin(np.where(above >= 0, above, np.inf)))
                if (above >= 0).any()
                else int(np.argmax(above))
            )
            of_way[way].append(host)
        for way, others in zip(ways, of_way, strict=True):
            kinds.append(Kind(way, np.array(others, np.int64)))
        lonely[mine[~unknown[behave]]] = False
    return kinds, np.flatnonzero(lonely)


def _distances(features: list[tuple[Floats, float]]) -> Floats:
    """How far each two hosts are apart in the feature in which they are furthest, in units of what is apart; unknown is alike."""
    count = len(features[0][0])
    apart = np.zeros((count, count))
    for values, unit in features:
        difference = np.abs(values[:, None] - values[None, :]) / unit
        np.maximum(apart, np.nan_to_num(difference, nan=0.0), out=apart)
    return apart


def _linked(apart: Floats) -> Ints:
    """Number of the cluster of each host: single linkage, hosts within a distance of 1 are together."""
    number = np.full(len(apart), -1, np.int64)
    clusters = 0
    for host in range(len(apart)):
        if number[host] >= 0:
            continue
        todo = [host]
        number[host] = clusters
        while todo:
            near = np.flatnonzero((apart[todo.pop()] <= 1) & (number < 0))
            number[near] = clusters
            todo += near.tolist()
        clusters += 1
    return number
