"""Until the native module is built, a histogram in plain Python with docs/engine.md's encoding."""

from __future__ import annotations

import bisect
import importlib.util
import math
import sys
import types


class FakeHistogram:
    def __init__(self, counts=None, total_ns=0, low_ns=0, high_ns=0):
        self._counts = dict(sorted((counts or {}).items()))
        self.count = sum(self._counts.values())
        self._total_ns, self.min_ns, self.max_ns = total_ns, low_ns, high_ns

    @staticmethod
    def _bucket(value):
        if value < 256:
            return value
        shift = value.bit_length() - 8
        return (shift << 7) + (value >> shift)

    @staticmethod
    def _low(bucket):
        return bucket if bucket < 256 else (128 + bucket % 128) << (bucket // 128 - 1)

    @classmethod
    def of(cls, values_ns):
        counts = {}
        for value in values_ns:
            counts[cls._bucket(value)] = counts.get(cls._bucket(value), 0) + 1
        values = values_ns or [0]
        return cls(counts, sum(values_ns), min(values), max(values))

    def encode(self):
        total = self._total_ns
        numbers = [1, self.count, total & (2**64 - 1), total >> 64, self.min_ns, self.max_ns]
        before = 0
        for bucket, count in self._counts.items():
            numbers += [bucket - before, count]
            before = bucket
        out = bytearray()
        for number in numbers:
            rest = number
            while rest >= 128:
                out.append(rest & 127 | 128)
                rest >>= 7
            out.append(rest)
        return bytes(out)

    @classmethod
    def decode(cls, blob):
        numbers, number, shift = [], 0, 0
        for byte in blob:
            number |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                numbers.append(number)
                number, shift = 0, 0
        if len(numbers) < 6 or numbers[0] != 1:
            raise ValueError("not a histogram")
        counts, bucket = {}, 0
        for step, count in zip(numbers[6::2], numbers[7::2], strict=True):
            bucket += step
            counts[bucket] = count
        return cls(counts, numbers[2] | numbers[3] << 64, numbers[4], numbers[5])

    def merged(self, other):
        counts = dict(self._counts)
        for bucket, count in other._counts.items():
            counts[bucket] = counts.get(bucket, 0) + count
        lows = [h.min_ns for h in (self, other) if h.count] or [0]
        return FakeHistogram(
            counts, self._total_ns + other._total_ns, min(lows), max(self.max_ns, other.max_ns)
        )

    def percentile_ns(self, percent):
        rank = max(1, math.ceil(percent / 100 * self.count))
        if rank >= self.count:
            return self.max_ns
        seen = list(self._counts.items())
        sums, running = [], 0
        for _, count in seen:
            running += count
            sums.append(running)
        bucket = seen[bisect.bisect_left(sums, rank)][0]
        middle = (self._low(bucket) + self._low(bucket + 1)) // 2
        return min(max(middle, self.min_ns), self.max_ns)

    @property
    def mean_ns(self):
        return self._total_ns / self.count if self.count else 0.0


if importlib.util.find_spec("seatrial._core") is None:
    fake = types.ModuleType("seatrial._core")
    fake.Histogram = FakeHistogram
    sys.modules["seatrial._core"] = fake
    import seatrial

    seatrial._core = fake
