"""What some chosen items share more than items like them do: a test over all values of all traits, and pairs of them, at once."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from whodisk.statistics.draws import drawn_p
from whodisk.statistics.stats import SEED, Bools, Floats, Ints

Texts = npt.NDArray[np.str_]

#: Values that fewer items have are looked at only where most of the chosen ones have them: by chance those never would.
USUAL_MIN = 0.02
#: What more of those that have a value would have by chance tells nothing.
ALL_HAVE_IT = 0.95


@dataclass(frozen=True)
class Items:
    """Items with their traits, one array element each."""

    #: Name of each trait -> its value; empty = not observed, or there is none (what made no request has no queue): neither that value nor another.
    traits: Mapping[str, Texts]
    #: Items are compared with those of the same stratum only.
    stratum: Texts
    #: Of chosen items: by how much each stands out. Of usual ones: by how much it would have to, to be among the chosen.
    excess: Floats

    def __len__(self) -> int:
        return len(self.stratum)

    def pick(self, index: Ints | Bools) -> Items:
        """Some of them."""
        return Items(
            {name: values[index] for name, values in self.traits.items()},
            self.stratum[index],
            self.excess[index],
        )


@dataclass(frozen=True)
class Shared:
    """A trait (or two together) that chosen items have in common."""

    traits: tuple[str, ...]
    values: tuple[str, ...]
    #: Part of the chosen items that have it, and the part that chance gives those that have a value, under the least favourable null model.
    share: float
    chance: float
    #: Standardized excess under that null model.
    z: float
    p_value: float
    #: Which chosen items have it.
    has: Bools


@dataclass(frozen=True)
class Rules:
    """What a trait must be to be reported."""

    #: Rounds of the test.
    rounds: int
    #: A part of the chosen items that has it beyond chance: (share - chance) / (1 - chance).
    attributable_min: float
    #: Values that fewer chosen items have are not looked at, nor traits that fewer have a value of.
    count_min: int
    #: Two traits mean the same items if they agree in this part of them.
    same: float
    #: So many chosen items have it beyond those that chance gives: a single one may have been exchangeable with no other that has it.
    beyond_min: float


class _Pools:
    """The usual items that each chosen one may be exchanged with, drawn in proportion to `weight`.

    Those of its stratum that would have been chosen, too, had they been hit by as much: usual items are ordered by stratum and, in it, by
    what they need, so a pool is a stretch of them.
    """

    def __init__(self, chosen: Items, usual: Items, weight: Floats) -> None:
        self.order = np.lexsort((usual.excess, usual.stratum))
        strata, need = usual.stratum[self.order], usual.excess[self.order]
        self.begin = np.searchsorted(strata, chosen.stratum, side="left")
        until = np.searchsorted(strata, chosen.stratum, side="right")
        self.end = np.array(
            [
                low + int(np.searchsorted(need[low:high], excess, side="right"))
                for low, high, excess in zip(self.begin, until, chosen.excess, strict=True)
            ],
            np.int64,
        )
        # Where nothing in a pool was exposed, all of it was alike.
        least = 1e-9 * (float(weight.mean()) or 1.0)
        self.weight = np.maximum(weight[self.order], least)
        self.sums = np.concatenate(([0.0], np.cumsum(self.weight)))

    @property
    def filled(self) -> Bools:
        return np.asarray(self.end > self.begin, np.bool_)

    def chance(self, has: Bools, known: Bools) -> Floats:
        """Chance of each chosen item's pool to give one that has it, among those that have a value; NaN: none there has."""
        held, every = self._within(has), self._within(known)
        part = np.where(every > 0, held / np.where(every > 0, every, 1.0), np.nan)
        return np.asarray(np.clip(part, 0.5 / len(self.order), 1.0), np.float64)

    def _within(self, chosen: Bools) -> Floats:
        """The weight of these in each pool."""
        sums = np.concatenate(([0.0], np.cumsum(self.weight * chosen[self.order])))
        return np.asarray(sums[self.end] - sums[self.begin], np.float64)

    def draw(self, rounds: int) -> Ints:
        """One usual item per chosen one, `rounds` times."""
        low, high = self.sums[self.begin], self.sums[self.end]
        lots = np.random.default_rng(SEED).random((rounds, len(low)))
        place = np.searchsorted(self.sums, low + lots * (high - low), side="right") - 1
        return np.asarray(self.order[np.clip(place, self.begin, self.end - 1)], np.int64)


@dataclass
class _Candidate:
    traits: tuple[str, ...]
    values: tuple[str, ...]
    has: Bools
    #: Which chosen items have a value at all, and may be exchanged with some that have one.
    known: Bools
    usual_has: Bools
    usual_known: Bools
    #: Per null model, for each chosen item: the chance that one of its pool has it, if that one has a value.
    chances: Floats
    #: Per null model: how many of those chosen items that have a value have it, and the standard deviation of that.
    expected: Floats
    spread: Floats

    @property
    def z(self) -> float:
        return float(_standardized(self.has.sum(), self.expected, self.spread).min())

    @property
    def share(self) -> float:
        return float(self.has.mean())

    @property
    def chance(self) -> float:
        return float(self.expected.max() / len(self.has))

    @property
    def varies(self) -> bool:
        """Whether it could be otherwise, among those that have a value."""
        return float(self.expected.max()) < ALL_HAVE_IT * float(self.known.sum())

    @property
    def beyond(self) -> float:
        """How many more of the chosen items have it than chance gives."""
        return float(self.has.sum() - self.expected.max())

    @property
    def attributable(self) -> float:
        return (self.share - self.chance) / max(1e-9, 1.0 - self.chance)

    def drawn(self, number: int, draws: Ints, known_min: int) -> Floats:
        """The standardized excess of each round of draws, as `z` is of the chosen items: of those drawn that have a value."""
        hits = self.usual_has[draws].sum(axis=1)
        if self.usual_known.all():
            return _standardized(hits, self.expected[number], self.spread[number])
        known, chance = self.usual_known[draws].astype(np.float64), self.chances[number]
        found = _standardized(hits, known @ chance, np.sqrt(known @ (chance * (1 - chance))))
        return np.where(known.sum(axis=1) >= known_min, found, 0.0)


def _standardized(hits: npt.ArrayLike, expected: npt.ArrayLike, spread: npt.ArrayLike) -> Floats:
    scores = (np.asarray(hits) - expected) / np.maximum(spread, 1e-9)
    return np.asarray(np.where(np.asarray(spread) > 0, scores, 0.0), np.float64)


def strongest(chosen: Items, usual: Items, weights: Sequence[Floats], rules: Rules) -> Shared | None:
    """The trait of the `chosen` items that is least like that of the `usual` ones; None if none is.

    Null models: each chosen item could have been any usual one of its stratum that would have been chosen, too; drawn in proportion to one
    of `weights`. Which of these is true nobody knows, and a mixture lies between them: the largest p value counts. All traits of an item stay
    together, and the largest standardized excess over all values and pairs is what the observed one is compared with (max-T).
    """
    if not len(chosen) or not len(usual):
        return None
    kept = _Pools(chosen, usual, weights[0]).filled
    chosen = chosen.pick(kept)
    if len(chosen) < rules.count_min:
        return None
    pools = [_Pools(chosen, usual, weight) for weight in weights]
    candidates = _candidates(chosen, usual, pools, rules)
    likely = [
        c for c in candidates if c.attributable >= rules.attributable_min and c.beyond >= rules.beyond_min
    ]
    if not likely:
        return None
    order = list(chosen.traits)
    best = max(likely, key=lambda c: (c.z, -len(c.traits)))
    # Several names for the same items: the one that stands first, single traits before pairs.
    alike = [
        c
        for c in likely
        if (c.has == best.has).mean() >= rules.same and (c.z >= rules.same * best.z or len(c.traits) < 2)
    ]
    alike = [c for c in alike if c.z >= 0.7 * best.z] or [best]
    found = min(alike, key=lambda c: (len(c.traits), order.index(c.traits[0])))
    p_value = max(_p_value(found, number, pool, candidates, rules) for number, pool in enumerate(pools))
    has = np.zeros(len(kept), np.bool_)
    has[np.flatnonzero(kept)] = found.has
    return Shared(found.traits, found.values, found.share, found.chance, found.z, p_value, has)


def _p_value(
    found: _Candidate, number: int, pool: _Pools, candidates: Sequence[_Candidate], rules: Rules
) -> float:
    draws = pool.draw(rules.rounds)
    largest = np.full(rules.rounds, -np.inf)
    for candidate in candidates:
        if candidate.spread[number] > 0:
            np.maximum(largest, candidate.drawn(number, draws, rules.count_min), out=largest)
    return drawn_p(largest, (found.has.sum() - found.expected[number]) / max(found.spread[number], 1e-9))


def _candidates(chosen: Items, usual: Items, pools: Sequence[_Pools], rules: Rules) -> list[_Candidate]:
    """Whatever could be the largest, by chance or not: not only what happens to be frequent among the chosen ones."""
    singles = []
    for trait in chosen.traits:
        values, counts = np.unique(usual.traits[trait], return_counts=True)
        often = values[counts >= USUAL_MIN * len(usual)]
        seen, counts = np.unique(chosen.traits[trait], return_counts=True)
        often = np.union1d(often, seen[counts >= max(rules.count_min, rules.attributable_min * len(chosen))])
        singles += [
            _candidate(chosen, usual, pools, (trait,), (str(value),)) for value in often if str(value)
        ]
    varied = [s for s in singles if s.varies and s.known.sum() >= rules.count_min]
    pairs = []
    for first, second in itertools.combinations(varied, 2):
        usual_enough = min(first.chance, second.chance) >= rules.attributable_min**2
        seen_enough = min(first.share, second.share) >= rules.attributable_min
        if first.traits != second.traits and (usual_enough or seen_enough):
            pairs.append(
                _candidate(chosen, usual, pools, first.traits + second.traits, first.values + second.values)
            )
    # What two traits share must say more than either alone.
    alone = {(s.traits, s.values): s.z for s in varied}
    for pair in pairs:
        parts = zip(pair.traits, pair.values, strict=True)
        if pair.z <= 1.3 * max(alone[(trait,), (value,)] for trait, value in parts):
            pair.has = np.zeros_like(pair.has)
    return varied + pairs


def _candidate(
    chosen: Items,
    usual: Items,
    pools: Sequence[_Pools],
    traits: tuple[str, ...],
    values: tuple[str, ...],
) -> _Candidate:
    has, usual_has = _has(chosen, traits, values), _has(usual, traits, values)
    usual_known = _known(usual, traits)
    chances = np.array([pool.chance(usual_has, usual_known) for pool in pools])
    # One that may be exchanged with none that has a value is compared with nothing.
    known = _known(chosen, traits) & ~np.isnan(chances).any(axis=0)
    chances = np.nan_to_num(chances)
    return _Candidate(
        traits,
        values,
        has & known,
        known,
        usual_has,
        usual_known,
        chances,
        (chances * known).sum(axis=1),
        np.sqrt((chances * (1 - chances) * known).sum(axis=1)),
    )


def _known(items: Items, traits: tuple[str, ...]) -> Bools:
    """Which items have a value of all these traits."""
    known = np.ones(len(items), np.bool_)
    for trait in traits:
        known &= items.traits[trait] != ""
    return known


def _has(items: Items, traits: tuple[str, ...], values: tuple[str, ...]) -> Bools:
    has = np.ones(len(items), np.bool_)
    for trait, value in zip(traits, values, strict=True):
        has &= items.traits[trait] == value
    return has
