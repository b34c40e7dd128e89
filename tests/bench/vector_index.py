"""Speed, memory and recall of the cosine index, a row a size: `vector_index.py 10000 100000`.

The vectors are synthetic: clusters of unequal size whose members differ from their middle by noise.
"""

import argparse
import statistics
import time

import numpy as np

from memory_store.vectors import VectorIndex, rescore

RESCORED = 64
BATCH = 100_000


def clustered(random, middles, count):
    chosen = random.zipf(1.3, count) % len(middles)
    noise = random.standard_normal((count, middles.shape[1]), dtype=np.float32)
    vectors = middles[chosen] + 0.9 * noise / np.sqrt(middles.shape[1])
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype("<f4")


def milliseconds(action, questions):
    """The median and the 95th percentile, each question asked once after a warm-up."""
    action(questions[0])
    times = []
    for question in questions:
        start = time.perf_counter()
        action(question)
        times.append((time.perf_counter() - start) * 1000)
    return statistics.median(times), statistics.quantiles(times, n=20)[-1]


def exact(vectors, query, limit):
    scores = vectors @ query
    return set(np.argpartition(scores, -limit)[-limit:].tolist())


def recall(index, vectors, queries, limit=10):
    hits = 0
    for query in queries:
        nearest = index.rank("n", query.tobytes(), RESCORED)
        scores = rescore(query.tobytes(), {s: [vectors[s].tobytes()] for s, _ in nearest})
        top = sorted(scores, key=scores.__getitem__, reverse=True)[:limit]
        hits += len(exact(vectors, query, limit) & set(top))
    return hits / limit / len(queries)


def measure(size, arguments):
    random = np.random.default_rng(1)
    middles = clustered(random, np.zeros((1, arguments.dimension), np.float32), size // 50 + 1)
    batches = range(0, size, BATCH)
    vectors = np.concatenate([clustered(random, middles, min(BATCH, size - at)) for at in batches])
    queries = clustered(random, middles, arguments.queries)
    index = VectorIndex(threads=arguments.threads)
    rows = [("n", subject, vector.tobytes()) for subject, vector in enumerate(vectors)]
    start = time.perf_counter()
    index.load(rows)
    yield "load s", f"{time.perf_counter() - start:.2f}"
    del rows
    yield "bytes each", f"{index.bytes_used / len(index):.0f}"
    for share in (1, 0.5, 0.01):
        allowed = None
        if share < 1:
            allowed = random.choice(size, int(size * share), replace=False).tolist()
        median, tail = milliseconds(
            lambda query, allowed=allowed: index.rank("n", query.tobytes(), RESCORED, allowed),
            queries,
        )
        yield f"rank {share:.0%} ms", f"{median:.2f}/{tail:.2f}"
    yield "recall@10", f"{recall(index, vectors, queries[:50]):.4f}"
    replaced = list(enumerate(queries))
    median, tail = milliseconds(lambda put: index.put("n", put[0], [put[1].tobytes()]), replaced)
    yield "replace ms", f"{median:.2f}/{tail:.2f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sizes", nargs="*", type=int, default=[10_000, 100_000])
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--dimension", type=int, default=384)
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    for position, size in enumerate(arguments.sizes):
        figures = dict(measure(size, arguments))
        if position == 0:
            print("| vectors |", " | ".join(figures), "|")
            print("|---" * (len(figures) + 1) + "|")
        print(f"| {size:,} |", " | ".join(figures.values()), "|")


if __name__ == "__main__":
    main()
