"""Mutations of the app for Django projects."""

from __future__ import annotations

from typing import Final

from mutations.mutation import Mutation

ADMIN: Final = "contrib/django/admin.py"
OF_ADMIN: Final = "tests/contrib/django/test_admin.py::test_"
APPLICATION: Final = "contrib/django/application.py"
OF_APPLICATION: Final = "tests/contrib/django/test_application.py::test_"
TASKS: Final = "contrib/django/tasks.py"
OF_TASKS: Final = "tests/contrib/django/test_tasks.py::test_"
OF_ASGI: Final = "tests/contrib/django/test_asgi.py::test_"

MUTATIONS: Final = (
    Mutation(
        "a job does not join Django's transaction",
        APPLICATION,
        "return connection if connection.in_atomic_block else None",
        "return None",
        (f"{OF_APPLICATION}a_job_is_committed_with_the_surrounding_transaction",),
    ),
    Mutation(
        "workers are woken before Django commits",
        "store/callers/django.py",
        "        self._connection.on_commit(callback)\n",
        "        callback()\n",
        (f"{OF_APPLICATION}workers_are_woken_after_the_commit",),
    ),
    Mutation(
        "times without a time zone stay naive",
        "store/callers/django.py",
        "return [self._aware(row) for row in cursor.fetchall()]",
        "return list(cursor.fetchall())",
        (f"{OF_APPLICATION}both_drivers_join_with_and_without_time_zones",),
    ),
    Mutation(
        "the admin shows secret arguments",
        ADMIN,
        '"fields": ("arguments",',
        '"fields": ("args",',
        (f"{OF_ADMIN}secret_arguments_need_their_permission",),
    ),
    Mutation(
        "the buttons of the admin ask for no permission",
        ADMIN,
        "or not request.user.has_perm(ORDERS[name][1])",
        "or False",
        (f"{OF_ADMIN}orders_need_the_permission_of_django",),
    ),
    Mutation(
        "an order in the admin is a GET",
        ADMIN,
        'request.method != "POST"',
        "False",
        (f"{OF_ADMIN}orders_are_posts_of_this_sites_own_pages",),
    ),
    Mutation(
        "a session of Django's obeys pages of other sites",
        "contrib/django/asgi.py",
        "            refuse_cross_site(connection)\n",
        "            pass\n",
        (f"{OF_ASGI}djangos_users_are_the_users_of_the_api",),
    ),
    Mutation(
        "an inactive user of Django's may do everything",
        "contrib/django/principals.py",
        "if not user.is_authenticated or not user.is_active:",
        "if not user.is_authenticated:",
        ("tests/contrib/django/test_principals.py::test_an_inactive_user_is_no_principal",),
    ),
    Mutation(
        "a result of another backend's job is shown",
        TASKS,
        'if about is None or about["backend"] != self.alias:',
        "if False:",
        (f"{OF_TASKS}results_of_other_jobs_do_not_exist",),
    ),
    Mutation(
        "a task that is tried again has finished",
        TASKS,
        "        if self._backend.retries(self._task, self._job, error):\n            return False\n",
        "",
        (f"{OF_TASKS}a_task_can_be_retried",),
    ),
    Mutation(
        "a job can be saved through its model",
        "contrib/django/models.py",
        "    save = delete = _refuse\n",
        "",
        ("tests/contrib/django/test_models.py::test_jobs_are_read_only",),
    ),
    Mutation(
        "a blocking handler leaves its connection open",
        "contrib/django/connections.py",
        "        finally:\n            close_old_connections()\n",
        "        finally:\n            pass\n",
        ("tests/contrib/django/test_connections.py::test_a_blocking_handler_leaves_no_connection_open",),
    ),
    Mutation(
        "an async handler leaves its connection open",
        "contrib/django/connections.py",
        "                await sync_to_async(connections.close_all)()\n",
        "                pass\n",
        ("tests/contrib/django/test_connections.py::test_an_async_handler_leaves_no_connection_open",),
    ),
)
