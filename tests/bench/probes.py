"""Facts that must come first among 200 others, each hard to find in its own way."""

from dataclasses import dataclass

FILLERS = 200
LONG = 4096
LAST_SENTENCE = "The spare key to the greenhouse hangs behind the blue watering can."

_PARAGRAPH = (
    "On the {n}. day of the journey we walked along the river until noon, rested in the shade of"
    " a mill, and talked about the price of wool, the weather in the hills and the new bridge. "
)
_NOTES = "".join(_PARAGRAPH.format(n=n) for n in range(1, 40))

FACTS = {
    "journal/long": f"{_NOTES[: LONG - len(LAST_SENTENCE) - 1]} {LAST_SENTENCE}",
    "files/a": "Database addresses are read from config.prod.yaml when the service starts.",
    "files/b": "Database addresses are read from config.dev.yaml when the service starts.",
    "files/c": "Database addresses are read from config.prod.json when the service starts.",
    "files/d": "Database addresses are read from config-prod-yaml when the service starts.",
    "files/e": "The prod config of the service is a yaml file: its addresses, its database.",
    "zh/a": "经过讨论我们决定把数据库迁移到法兰克福机房并且每天夜里做一次备份",
    "zh/b": "经过讨论我们决定把邮件服务保留在东京机房并且每天早上发一份报告",
    "zh/c": "新同事入职第一周需要完成安全培训并且设置双重验证",
    "pets/1": "Felix the cat gets fed at dawn.",
    "people/1": "Marta handles salaries; she answers within a day.",
    "house/1": "Thermostat: nineteen degrees Celsius after sunset.",
}


@dataclass(frozen=True)
class Probe:
    """A question, the key that must come first, and in which modes."""

    name: str
    question: str
    key: str
    modes: tuple[str, ...] = ("hybrid",)


PROBES = (
    Probe(
        "the last sentence of 4 KB",
        LAST_SENTENCE,
        "journal/long",
        ("hybrid", "lexical"),
    ),
    Probe("a question to the last sentence", "where is the spare key?", "journal/long"),
    Probe("an identifier", "config.prod.yaml", "files/a", ("hybrid", "lexical")),
    Probe("an identifier in a question", "what is config.prod.yaml for?", "files/a"),
    Probe("two Chinese characters in a run", "备份", "zh/a", ("hybrid", "lexical")),
    Probe("two Chinese characters at a run's end", "验证", "zh/c", ("hybrid", "lexical")),
    Probe("a paraphrase about pets", "when does my kitten have its breakfast?", "pets/1"),
    Probe("a paraphrase about pay", "who pays the staff?", "people/1"),
    Probe("a paraphrase about heating", "how warm is the living room overnight?", "house/1"),
)
