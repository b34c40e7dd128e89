"""Made-up facts of a software team and questions about them, the same for the same seed."""

import random

OWNERS = ["Priya", "Tomas", "Mei", "Amara", "Jonas", "Lucía", "Kofi", "Ingrid", "Ravi", "Noor"]
PLACES = ["production", "staging", "the demo system", "Frankfurt", "Oregon", "the lab", "a laptop"]
SERVICES = """
billing checkout search catalogue login invoices shipping returns pricing inventory newsletter
notifications chat reports uploads thumbnails exports imports audit ledger payroll scheduling maps
weather recommendations reviews coupons loyalty fraud identity permissions sessions gateway crawler
"""
PARTS = """
cache queue worker database replica index scheduler webhook migration dashboard alert backup
certificate password token timeout retry limit schema endpoint container image volume proxy log
trace metric report template feature flag rollout deployment pipeline test fixture library licence
"""
VERDICTS = [
    "was moved to {place} because the old machine ran out of disk",
    "must be restarted by {owner} after every release",
    "answers within {number} milliseconds, measured in {place}",
    "keeps {number} entries and drops the oldest first",
    "fails when two clients write the same row; {owner} is working on it",
    "is described in the handbook, chapter {number}; ask {owner} about the rest",
    "costs {number} euros a month in {place}, which {owner} finds too much",
    "was switched off after the incident of week {number} and has not been missed",
    "needs {number} megabytes of memory under the load that {owner} simulated",
    "is written in Rust since {owner} rewrote it, and nobody else knows how it works",
    "retries {number} times with growing pauses before it gives up and pages {owner}",
    "speaks to {service} over a socket, so both have to run in {place}",
]
QUESTIONS = [
    "what do we know about the {part} of {service}?",
    "why does the {service} {part} behave differently in {place}?",
    "who looks after the {part} that {service} uses?",
    "how large may the {service} {part} grow before {owner} is called?",
    "when did {owner} last change the {part} for {service}?",
    "where does {service} keep its {part}?",
]


def facts(count: int, seed: int = 1) -> dict[str, str]:
    """Returns values by key, `count` of them."""
    dice = random.Random(seed)
    made = (_fact(dice, number) for number in range(count))
    return dict(made)


def questions(count: int, seed: int = 2) -> list[str]:
    """Returns `count` different questions."""
    dice = random.Random(seed)
    asked: dict[str, None] = {}
    while len(asked) < count:
        asked[dice.choice(QUESTIONS).format_map(_words(dice))] = None
    return list(asked)


def _fact(dice: random.Random, number: int) -> tuple[str, str]:
    words = _words(dice)
    verdicts = dice.sample(VERDICTS, dice.choice([1, 1, 1, 2, 3]))
    sentences = "; it ".join(verdict.format_map(words) for verdict in verdicts)
    key = f"{words['service']}/{words['part']}-{number}"
    return key, f"The {words['part']} of {words['service']} {sentences}."


def _words(dice: random.Random) -> dict[str, str]:
    return {
        "owner": dice.choice(OWNERS),
        "place": dice.choice(PLACES),
        "service": dice.choice(SERVICES.split()),
        "part": dice.choice(PARTS.split()),
        "number": str(dice.randrange(2, 2000)),
    }
