"""The JSON Schema that editors use agrees with what the generator accepts."""

import json
from pathlib import Path

import jsonschema
import pytest
import yaml

import gres
from tests.unit.malformed_plans import GOOD, MALFORMED, Malformed

SCHEMA = json.loads((Path(gres.__file__).parent / "plan.schema.json").read_text())
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


def refused_by_schema(malformed: Malformed) -> bool:
    return not VALIDATOR.is_valid(yaml.safe_load(malformed.text))


def is_yaml(malformed: Malformed) -> bool:
    try:
        yaml.safe_load(malformed.text)
    except yaml.YAMLError:
        return False
    return True


def test_that_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def test_that_the_schema_accepts_a_good_plan() -> None:
    VALIDATOR.validate(yaml.safe_load(GOOD))


def test_that_the_schema_refuses_most_of_what_the_generator_refuses() -> None:
    # It sees single values only: nothing of host lists, sums, references and YAML's spelling.
    seen = [malformed for malformed in MALFORMED[::3] if is_yaml(malformed) and malformed.path]
    assert sum(map(refused_by_schema, seen)) > 0.7 * len(seen)


@pytest.mark.parametrize(
    "old", ["sms: 108", "policy: cap", "whole: true", "submit_bridge: true", "vgpus: {a100-2g: 3}"]
)
def test_that_the_schema_refuses_a_missing_or_foreign_value(old: str) -> None:
    assert not VALIDATOR.is_valid(
        yaml.safe_load(GOOD.replace(old, f"{old.split(':', maxsplit=1)[0]}: nonsense"))
    )
