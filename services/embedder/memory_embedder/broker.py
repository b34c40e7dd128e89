"""The queues between gateways and workers: Celery over Redis, and how it is to behave."""

import importlib
from typing import Any

from memory_embedder.exchange import CONNECT_SECONDS, PREFIX, QUEUE_ERRORS

celery: Any = importlib.import_module("celery")  # none of them has types
celery_amqp: Any = importlib.import_module("celery.app.amqp")
kombu: Any = importlib.import_module("kombu")

QUERY = "query"
NUDGE = "drain"
"""Each names a task and the queue that it travels on."""
BROKER_ERRORS = (*QUEUE_ERRORS, kombu.exceptions.OperationalError)
RECONNECT_SECONDS = 2
VISIBILITY_SECONDS = 20
"""After which what a dead worker had taken is given to another."""


class _Connection(kombu.Connection):
    def ensure_connection(self, *args: Any, **kwargs: Any) -> Any:
        """Left alone, the pauses grow to 30 seconds, and so long would a recovery take."""
        steady = {"interval_start": RECONNECT_SECONDS, "interval_step": 0}
        return kombu.Connection.ensure_connection(self, *args, **kwargs, **steady)


class _Amqp(celery_amqp.AMQP):
    Connection = _Connection


def sending(url: str, patience: float) -> Any:
    """Returns a Celery app to send tasks with: it fails within `patience` seconds, or at once."""
    app = _app(url)
    # Without the first of them a send waits until Redis is there, however long.
    app.conf.broker_transport_options |= {
        "max_retries": 0,
        "socket_timeout": patience,
        "socket_connect_timeout": CONNECT_SECONDS,
    }
    return app


def working(url: str) -> Any:
    """Returns a Celery app for a worker, which has its tasks yet to be registered."""
    app = _app(url, amqp=_Amqp)
    app.conf.update(
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        worker_cancel_long_running_tasks_on_connection_loss=True,
        worker_enable_remote_control=False,
        worker_hijack_root_logger=False,
        worker_prefetch_multiplier=1,
    )
    app.conf.broker_transport_options |= {
        # By default a dead worker's messages come back after an hour and up to 100 seconds.
        "visibility_timeout": VISIBILITY_SECONDS,
        "unacked_restore_interval": 1,
        "unacked_restore_throttle": 1,
        # A connection that is dead without a word is noticed within about 11 seconds, not 51.
        "health_check_interval": 5,
    }
    return app


def _app(url: str, **options: Any) -> Any:
    app = celery.Celery("memory-bridge", broker=url, set_as_current=False, **options)
    app.conf.update(
        accept_content=["json"],
        broker_transport_options={"global_keyprefix": PREFIX},
        task_ignore_result=True,
        task_publish_retry=False,
        task_queues=[kombu.Queue(name) for name in (QUERY, NUDGE)],
        task_create_missing_queues=False,
    )
    return app
