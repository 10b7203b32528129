# Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0
"""Reads the Chrome traces of test_trace_files with a strict parser: what viewers rely on."""

import collections
import decimal
import json
import os
import pathlib
import subprocess
import tempfile
import unittest

PROGRAM = os.path.join(os.environ["TPP_BUILD_DIR"], "bin", "test_trace_files")


def no_duplicates(pairs):
    keys = [key for key, _ in pairs]
    if len(set(keys)) != len(keys):
        raise ValueError(f"a key twice in {keys}")
    return dict(pairs)


def no_constants(text):
    raise ValueError(f"{text} is not JSON")


def strict(path):
    return json.loads(
        path.read_bytes().decode("utf-8"),
        parse_float=decimal.Decimal,
        parse_constant=no_constants,
        object_pairs_hook=no_duplicates,
    )


class ChromeTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        subprocess.run([PROGRAM, cls.folder.name], check=True)
        cls.traces = {p.stem: strict(p) for p in pathlib.Path(cls.folder.name).glob("*.json")}

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def events(self, name, phase="X"):
        return [e for e in self.traces[name]["traceEvents"] if e["ph"] == phase]

    def test_there_are_traces(self):
        self.assertGreater(len(self.traces), 10)

    def test_top_level(self):
        for name, trace in self.traces.items():
            with self.subTest(name):
                self.assertEqual(set(trace), {"displayTimeUnit", "traceEvents"})
                self.assertEqual(trace["displayTimeUnit"], "ms")

    def test_no_events(self):
        self.assertEqual(self.events("empty"), [])
        self.assertEqual(len(self.events("empty", "M")), 2 * 4)

    def test_names_of_processes_and_threads(self):
        for name in self.traces:
            with self.subTest(name):
                meta = self.events(name, "M")
                ranks = {e["pid"] for e in meta}
                kinds = collections.defaultdict(list)
                for e in meta:
                    kinds[e["name"]].append(e)
                named = {e["pid"]: e["args"]["name"] for e in kinds["process_name"]}
                order = {e["pid"]: e["args"]["sort_index"] for e in kinds["process_sort_index"]}
                threads = {(e["pid"], e["tid"]) for e in kinds["thread_name"]}
                self.assertEqual(named, {r: f"rank {r}" for r in ranks})
                self.assertEqual(order, {r: r for r in ranks})
                self.assertEqual(len(meta), 2 * len(ranks) + len(threads))
                used = {(e["pid"], e["tid"]) for e in self.events(name)}
                self.assertLessEqual(used, threads)

    def test_lanes(self):
        meta = self.events("lanes", "M")
        threads = {e["tid"]: e["args"]["name"] for e in meta if e["name"] == "thread_name"}
        names = ["tp 0 compute", "tp 0 waits", "tp 1 compute", "tp 1 waits"]
        self.assertEqual(threads, dict(enumerate(names)))
        self.assertEqual({e["pid"] for e in self.events("lanes")}, {0, 1, 2, 3})

    def test_events_of_a_thread_never_overlap_partly(self):
        for name in self.traces:
            by_thread = collections.defaultdict(list)
            for e in self.events(name):
                self.assertGreaterEqual(e["dur"], 0)
                by_thread[e["pid"], e["tid"]].append((e["ts"], e["ts"] + e["dur"]))
            for thread, spans in by_thread.items():
                with self.subTest(name, thread=thread):
                    spans.sort()
                    for (_, end), (start, _) in zip(spans, spans[1:]):
                        self.assertLessEqual(end, start)

    def test_threads_hold_compute_or_waits(self):
        for name in self.traces:
            for e in self.events(name):
                wait = e["name"].startswith("RECV")
                self.assertEqual(e["tid"] % 2, int(wait))
                self.assertEqual(e["cat"], "wait" if wait else "compute")
                self.assertLessEqual({"stage", "micro", "chunk", "step"}, set(e["args"]))
                self.assertEqual(e["name"].split()[1], str(e["args"]["micro"]))

    def test_1f1b_by_hand(self):
        events = self.events("1f1b")
        self.assertEqual(sum(e["cat"] == "compute" for e in events), 4 * 16)
        self.assertEqual(max(e["ts"] + e["dur"] for e in events), 33000)
        ends = {(e["pid"], e["name"]): e["ts"] + e["dur"] for e in events}
        self.assertEqual(ends[1, "F 3"], 11000)
        self.assertEqual(ends[1, "B 3"], 19000)

    def test_measured_times_stay_absolute(self):
        first = min(e["ts"] for e in self.events("seconds"))
        self.assertEqual(first, decimal.Decimal("51234500000.000"))


if __name__ == "__main__":
    unittest.main()
