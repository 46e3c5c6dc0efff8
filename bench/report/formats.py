# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Rows in the columns of nccl-tests and of the OSU micro-benchmarks, for scripts that read those.
"""One table for each scene, in the layout of one run of the named program, with the rows of one contestant."""

import rows as r

NCCL = {"allreduce": "all_reduce", "broadcast": "broadcast", "allgather": "all_gather", "reduce_scatter": "reduce_scatter", "reduce": "reduce",
        "gather": "gather", "scatter": "scatter", "alltoall": "alltoall"}
NCCL_TYPES = {"float": "float", "bfloat16": "bfloat16", "tally": "user"}
OSU = {"allreduce": "Allreduce", "broadcast": "Broadcast", "allgather": "Allgather", "reduce_scatter": "Reduce_scatter", "reduce": "Reduce",
       "gather": "Gather", "scatter": "Scatter", "alltoall": "All-to-All Personalized Exchange", "barrier": "Barrier"}
OSU_VERSION = "7.3"  # the version with this layout
OSU_TYPES = {"float": "MPI_FLOAT", "bfloat16": "MPI_BYTE", "tally": "MPI_BYTE"}
ELEMENT_BYTES = {"float": 4, "bfloat16": 2, "tally": 16}
REDUCES = ("allreduce", "reduce", "reduce_scatter")
ROOTED = ("broadcast", "reduce", "gather", "scatter")


def wanted(rows, only):
    """Rows of kolo's automatic choice in ordinary buffers, unless `only`, {field: value}, selects others."""
    asked = {"implementation": "kolo", "buffers": "ordinary", **only}
    if "algorithm" not in asked:
        asked["algorithm"] = "automatic" if asked["implementation"].startswith("kolo") else "default"
    return [row for row in rows if all(str(getattr(row.who, name, getattr(row.scene, name, None))) == value for name, value in asked.items())]


def tables(rows, apart):
    """{scene: rows by size}, in reading order; fields in `apart` do not separate tables."""
    found = {}
    for row in rows:
        found.setdefault(row.scene._replace(**{name: "" for name in apart}), []).append(row)
    return {s: sorted(found[s], key=lambda row: row.bytes) for s in sorted(found, key=r.scene_order)}


def fitted(x, width):
    """Fits a number into a column as nccl-tests does: fewer decimals, then an exponent."""
    for digits in (2, 1, 0):
        if len(f"{x:.{digits}f}") <= width:
            return f"{x:.{digits}f}"
    return f"{x:.1e}" if width >= 7 else f"{x:.0e}"


def nccl_body(row):
    """Time, algbw, busbw, #wrong: 0, because a wrong result gives no row; N/A for a place that was not measured."""
    if row is None:
        return "  %7s  %6s  %6s  %6s" % ("N/A", "N/A", "N/A", "N/A")
    return "  %7s  %6s  %6s  %6d" % (fitted(row.p50 / 1000, 7), fitted(row.algbw, 6), fitted(row.busbw, 6), 0)


def nccl_line(scene, size, places):
    parts = scene.ranks if scene.collective in ("allgather", "gather", "scatter") else 1
    count = size // ELEMENT_BYTES[scene.element]
    if scene.collective in ("reduce_scatter", "alltoall"):
        count //= scene.ranks  # of one rank's part, as in nccl-tests
    return ("%12d  %12d  %8s  %6s  %6d" % (size * parts, count, NCCL_TYPES[scene.element], "sum" if scene.collective in REDUCES else "none",
                                          0 if scene.collective in ROOTED else -1) + nccl_body(places.get("out_of_place")) + nccl_body(places.get("in_place")))


def nccl_tests(run, only):
    for scene, rows in tables([row for row in wanted(run.rows, only) if row.scene.collective in NCCL], ["place"]).items():
        by_size = {}
        for row in rows:
            by_size.setdefault(row.bytes, {})[row.scene.place] = row
        program, host = NCCL[scene.collective] + "_perf", str(run.context.get("host_name", "localhost")).split()[0]
        parts = scene.ranks if scene.collective in ("allgather", "gather", "scatter") else 1
        yield f"# Collective test starting: {program}"
        yield (f"# nThread 1 nGpus 1 minBytes {min(by_size) * parts} maxBytes {max(by_size) * parts} step: 2(factor) warmup iters: 1 "
               f"iters: {max(row.bursts for row in rows)} agg iters: 1 validation: 1 graph: 0")
        yield "#"
        yield "# Using devices"
        for rank in range(scene.ranks):
            yield f"#  Rank {rank:2d} Group  0 Pid {0:6d} on {host:>10} device {0:2d} [0000:00:00] no GPU: {about(run, rows[0], scene)}"
        yield "#"
        blank = "# %10s  %12s  %8s  %6s  %6s" % ("", "", "", "", "")
        yield blank + "           out-of-place                       in-place          "
        names, units = ("time", "algbw", "busbw", "#wrong"), ("(us)", "(GB/s)", "(GB/s)", "")
        for words, columns in (("size", "count", "type", "redop", "root"), names), (("(B)", "(elements)", "", "", ""), units):
            yield "# %10s  %12s  %8s  %6s  %6s  %7s  %6s  %6s  %6s  %7s  %6s  %6s  %6s " % (*words, *columns, *columns)
        for size, places in sorted(by_size.items()):
            yield nccl_line(scene, size, places)
        busbw = [row.busbw for row in rows]
        yield "# %-20s : %d %s" % ("Out of bounds values", 0, "OK")
        yield "# %-20s : %g " % ("Avg bus bandwidth", sum(busbw) / len(busbw))
        yield "#"
        yield f"# Collective test concluded: {program}"


def about(run, row, scene):
    version = run.context.get(f"version_{row.who.implementation}", row.who.implementation)
    return f"{version}, {scene.mode.replace('_', ' ')}, cores {scene.distance}"


def osu(run, only):
    """Out of place, as in OSU, unless `only` selects otherwise. In alltoall OSU's size is that of one message."""
    for scene, rows in tables([row for row in wanted(run.rows, {"place": "out_of_place", **only}) if row.scene.collective in OSU], []).items():
        yield ""
        yield f"# OSU MPI {OSU[scene.collective]} Latency Test v{OSU_VERSION}"
        yield f"# Not printed by OSU, and not MPI: {about(run, rows[0], scene)}, {scene.ranks} ranks, the slowest rank's median"
        if scene.collective == "barrier":
            yield "# Avg Latency(us)"
            yield "%17.2f" % (rows[0].p50 / 1000)
            continue
        yield f"# Datatype: {OSU_TYPES[scene.element]}."
        yield "%-10s%18s" % ("# Size", "Avg Latency(us)")
        for row in rows:
            yield "%-10d%18.2f" % (row.bytes // (scene.ranks if scene.collective == "alltoall" else 1), row.p50 / 1000)


FORMATS = {"nccl-tests": nccl_tests, "osu": osu}
