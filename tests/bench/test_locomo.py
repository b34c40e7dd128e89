"""The benchmark's file is read as it is published, faults included."""

import json

import pytest

from bench.locomo import BadData, evidence_ids, read

SAMPLE = {
    "sample_id": "conv-1",
    "conversation": {
        "speaker_a": "Ann",
        "session_1_date_time": "1 May 2023",
        "session_1": [
            {"speaker": "Ann", "dia_id": "D1:1", "text": "Hi!"},
            {"speaker": "Bob", "dia_id": "D1:2", "text": "Look.", "blip_caption": "a dog"},
        ],
    },
    "qa": [
        {"question": "Who has a dog?", "category": 4, "evidence": ["D1:2", "D9:9"]},
        {"question": "Who has a cat?", "category": 5, "evidence": []},
    ],
}


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        (["D8:6; D9:17"], ("D8:6", "D9:17")),
        (["D9:1 D4:4 D4:6"], ("D9:1", "D4:4", "D4:6")),
        (["D:11:26"], ("D11:26",)),
        (["D30:05"], ("D30:5",)),
        (["D1:1", "D1:1"], ("D1:1",)),
        (["D"], ()),
    ],
)
def test_malformed_evidence_names_the_turns_it_means(given, meant):
    assert evidence_ids(given) == meant


def test_a_turn_is_stored_with_its_date_speaker_and_caption(tmp_path):
    file = tmp_path / "locomo.json"
    file.write_text(json.dumps([SAMPLE]), "utf-8")
    [conversation] = read(file)
    assert conversation.turns == {
        "D1:1": "[1 May 2023] Ann: Hi!",
        "D1:2": "[1 May 2023] Bob: Look. [shares a dog]",
    }


def test_a_question_without_evidence_is_not_asked(tmp_path):
    file = tmp_path / "locomo.json"
    file.write_text(json.dumps([SAMPLE]), "utf-8")
    [conversation] = read(file)
    assert [question.evidence for question in conversation.questions] == [("D1:2",)]


@pytest.mark.parametrize("content", ["{}", "[1]", "no JSON", '[{"sample_id": "x"}]'])
def test_another_file_is_refused_in_a_sentence(tmp_path, content):
    file = tmp_path / "other.json"
    file.write_text(content, "utf-8")
    with pytest.raises(BadData, match="is not a LoCoMo file"):
        read(file)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(BadData, match=r"absent\.json cannot be read: No such file"):
        read(tmp_path / "absent.json")
