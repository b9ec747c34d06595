"""Reads Prometheus text pages."""

import re

_SAMPLE = re.compile(r'^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)(?: \d+)?$')
_LABEL = re.compile(r'([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"(?:,|$)')


class Page:
    def __init__(self, text):
        self.text = text
        self.types = {}
        self.samples = []  # (name, labels, value)
        for line in text.splitlines():
            if line.startswith("# TYPE "):
                _, _, name, kind = line.split(" ")
                assert name not in self.types, f"family {name} appears twice"
                self.types[name] = kind
            elif line and not line.startswith("#"):
                match = _SAMPLE.match(line)
                assert match, f"not a sample: {line!r}"
                labels = dict(_LABEL.findall(match[2] or ""))
                self.samples.append((match[1], labels, float(match[3])))

    def family_of(self, sample_name):
        if sample_name in self.types:
            return sample_name
        for suffix in ("_bucket", "_sum", "_count"):
            base = sample_name.removesuffix(suffix)
            if base != sample_name and self.types.get(base) == "histogram":
                return base
        raise AssertionError(f"sample {sample_name} has no TYPE line")

    def label_names(self):
        """{family: set of label-name tuples seen}, without le."""
        names = {}
        for sample, labels, _ in self.samples:
            key = tuple(sorted(set(labels) - {"le"}))
            names.setdefault(self.family_of(sample), set()).add(key)
        return names

    def bounds(self, family):
        """The bucket bounds of a histogram as printed, of any one series."""
        series = {}
        for sample, labels, _ in self.samples:
            if sample == family + "_bucket":
                rest = tuple(sorted((k, v) for k, v in labels.items() if k != "le"))
                series.setdefault(rest, []).append(labels["le"])
        assert series, f"histogram {family} has no series"
        return next(iter(series.values()))

    def value(self, name, **labels):
        """The sum over all series of `name` whose labels include `labels`."""
        return sum(v for n, l, v in self.samples if n == name and labels.items() <= l.items())
