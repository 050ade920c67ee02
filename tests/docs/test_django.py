"""docs/howto/django.md, executed: a project is made as the page says, and every command and block of it runs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import django
import pytest
from tests.docs.page import BLOCK, HOWTO, PROMISED

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]
PAGE = (HOWTO / "django.md").read_text(encoding="utf-8")
MODELS = """
from django.db import models

class Order(models.Model):
    customer = models.TextField()
"""


def block(words: str) -> str:
    """The block of the page that contains these words."""
    (found,) = (text for text in BLOCK.findall(PAGE) if words in text)
    return str(found) if django.VERSION >= (6,) else str(found).replace("from django.tasks", "from django_tasks")


class Project:
    """A project in a folder of its own."""

    def __init__(self, folder: Path, database_url: str) -> None:
        self.folder, self.database = folder, database_url
        own = {name: value for name, value in os.environ.items() if not name.startswith(("ROWLOCK_", "DJANGO_"))}
        self.environment = {**own, "PATH": f"{os.path.dirname(sys.executable)}:{own['PATH']}"}  # noqa: PTH120 - of venv

    def run(self, command: str) -> str:
        done = subprocess.run(
            ["bash", "-c", command],  # noqa: S607 - as readers type it
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert done.returncode == 0, f"{command}: {done.stdout} {done.stderr}"
        return done.stdout

    def write(self, path: str, *texts: str) -> None:
        (self.folder / path).write_text("\n\n".join(texts), encoding="utf-8")

    def settings(self) -> None:
        host = re.search(r"host=([^&]+)", self.database)
        assert host is not None
        name = self.database.partition("?")[0].rpartition("/")[2]
        options = '{"options": "-c search_path=public"}'
        place = f'"NAME": "{name}", "USER": "rowlock", "HOST": "{host[1]}", "OPTIONS": {options}'
        made = (self.folder / "mysite/settings.py").read_text(encoding="utf-8")
        blocks = (block("INSTALLED_APPS").replace('"NAME": "mysite"', place), block('"modules"'), block("TASKS ="))
        self.write("mysite/settings.py", made, *blocks)


@pytest.fixture
def mysite(tmp_path: Path, empty_database_url: str) -> Project:
    project = Project(tmp_path, empty_database_url)
    start = re.search(r"```sh\n(django-admin.*?)```", PAGE, re.DOTALL)
    assert start is not None
    project.run(start[1])
    project.folder = tmp_path / "mysite"
    project.settings()
    project.write("shop/models.py", MODELS)
    project.write("shop/jobs.py", block("def send_receipt"))
    tasks, _, use = block("def send_email").partition("result =")
    project.write("shop/tasks.py", tasks)
    project.write("use_tasks.py", "from shop.tasks import send_email", f"result ={use}")
    orders = ("from shop.jobs import send_receipt", "from shop.models import Order", block("def place_order"))
    project.write("shop/orders.py", *orders)
    imports = ("from shop.models import Order", "from shop.orders import place_order")
    project.write("shop/tests.py", *imports, block("class OrderTest"), block("class ReceiptTest"))
    project.write("mysite/access.py", block("def principal"))
    project.write("mysite/rowlock.py", block("app = DjangoRowlock()"))
    project.write(
        "mysite/asgi.py", "import os", "os.environ['DJANGO_SETTINGS_MODULE'] = 'mysite.settings'", block("with_rowlock")
    )
    return project


def test_the_page_leads_from_startproject_to_a_completed_job(mysite: Project) -> None:
    manage = "python manage.py"
    mysite.run(f"{manage} makemigrations shop")
    first = re.search(r"```sh\n(python manage.py migrate.*?)```", PAGE, re.DOTALL)
    assert first is not None
    migrate, enqueue, worker, listing = first[1].strip().splitlines()
    for command in (migrate, enqueue):
        mysite.run(command)
    mysite.run(
        f"{worker} & pid=$!; until {manage} rowlock jobs ls --json | grep completed; do :; done; kill $pid; wait $pid"
    )
    assert "completed" in mysite.run(listing.partition("#")[0])

    printed = mysite.run(f"{manage} shell -c \"exec(open('use_tasks.py').read())\"").strip().splitlines()
    assert printed[-1:] == PROMISED.findall(block("def send_email"))
    mysite.run(f"{manage} sqlmigrate rowlock 0022 && {manage} check")
    mysite.run("python -c 'import mysite.asgi, mysite.access, mysite.rowlock'")
    mysite.run(f"{manage} test")


def test_the_page_names_every_permission_and_setting() -> None:
    from tests.django_project import set_up  # noqa: PLC0415 - this test alone needs it

    set_up()
    from rowlock.contrib.django.configuration import _OWN  # noqa: PLC0415 - after set_up()
    from rowlock.contrib.django.principals import PERMISSIONS  # noqa: PLC0415 - after set_up()

    names = [*(name.removeprefix("rowlock.") for name in PERMISSIONS), *_OWN]
    assert [name for name in names if name not in PAGE] == []
