"""What every drill of the whole is given."""

import pytest

from databases import ENGINES, new_database


@pytest.fixture(params=ENGINES)
def database(request, tmp_path):
    with new_database(request.param, tmp_path) as database:
        yield database
