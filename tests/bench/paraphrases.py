"""Facts as developers keep them, each with a question in other words than its own."""

PARAPHRASES = {
    "deploy/db-port": ("5432", "which port does the database listen on in production?"),
    "api.rate_limit": (
        "100 requests per minute",
        "how many calls may a client make before it is throttled?",
    ),
    "auth/jwt_ttl": ("15m", "how long until a login token expires?"),
    "frontend/package-manager": ("pnpm", "what tool do we use to install javascript dependencies?"),
    "team/oncall-rotation": (
        "Priya this week, Tomas next week",
        "who should I page if something breaks at night?",
    ),
    "ci.runner.os": ("ubuntu-24.04", "which operating system do the build machines run?"),
    "feature_flags/new_checkout": (
        "enabled for 10 % of users since March",
        "is the redesigned payment page switched on?",
    ),
    "style/python/line-length": ("100", "how wide may a line of code be?"),
    "backup-schedule": (
        "daily at 02:00 UTC, kept for 30 days",
        "when are the snapshots of our data taken?",
    ),
    "redis.maxmemory.policy": ("allkeys-lru", "what happens when the cache is full?"),
    "user/preferences/language": ("German", "what language should I answer in?"),
    "infra/region": ("eu-central-1", "where are our servers located?"),
    "payments.provider": ("Stripe", "who processes credit cards for us?"),
    "db.migration.tool": ("alembic", "how do we change the schema?"),
    "logging/level/staging": ("DEBUG", "how verbose is the output in the test environment?"),
    "project/start-command": ("make run", "how do I launch the application locally?"),
    "project/test-command": ("pytest -x -q", "how do I check that nothing is broken?"),
    "git.branching": (
        "trunk based, short lived branches, squash on merge",
        "what is our workflow for merging pull requests?",
    ),
    "security/password-hash": ("argon2id", "which algorithm protects stored credentials?"),
    "email.sender.domain": ("mail.acme.io", "from which address are notifications sent?"),
    "MAX_UPLOAD_SIZE": ("25 MB", "what is the largest file a customer can attach?"),
    "SESSION_TIMEOUT_SECONDS": ("1800", "after how much inactivity is somebody logged out?"),
    "decision/orm": (
        "We dropped the ORM and write SQL by hand because the generated joins were slow",
        "why don't we use SQLAlchemy models?",
    ),
    "bug/1423": (
        "The login page hangs in Safari 17 when third party cookies are blocked; redirecting helps",
        "why can't iPhone users sign in?",
    ),
    "todo/next": (
        "Finish the importer, then write the release notes for 2.4",
        "what should I work on after this?",
    ),
    "arch/search": (
        "Queries go to Meilisearch; it is fed from the outbox table by a worker every two seconds",
        "how does a new document become findable?",
    ),
    "meeting/2026-03-04": (
        "Agreed to postpone the mobile app until the API is stable",
        "what did we decide about the phone client?",
    ),
    "contact/vendor/hosting": (
        "support@hetzner.example, customer number 88211",
        "whom do I write to about the machine room?",
    ),
    "k8s.namespace.prod": ("shop-live", "in which cluster namespace does the real thing run?"),
    "docker/base-image": ("python:3.12-slim", "which container image do we build from?"),
    "naming/branches": ("feature/<ticket>-<slug>", "how should I call my git branch?"),
    "i18n/fallback_locale": ("en-GB", "which translation is shown if one is missing?"),
    "observability/tracing": (
        "OpenTelemetry to Tempo, 5 % sampled",
        "how do we follow a request across services?",
    ),
    "coverage.threshold": ("85", "how much of the code must be exercised by tests?"),
    "release/cadence": ("every second Tuesday", "how often do we ship?"),
    "cors/allowed-origins": (
        "https://app.acme.io, https://admin.acme.io",
        "which websites may call our backend from a browser?",
    ),
    "queue.retry.max_attempts": ("5", "how many times is a failed job tried again?"),
    "editor.indent": ("2 spaces for YAML and TypeScript, 4 for Python", "tabs or blanks?"),
    "license": ("Apache-2.0", "under which terms can others use the source?"),
    "note-17": (
        "The customer in Lyon wants invoices as PDF/A with the purchase order number in the footer",
        "what does the French client need on its bills?",
    ),
    "f3a9c1": (
        "Grafana dashboards live in the ops repository under dashboards/, exported as JSON",
        "where are the monitoring charts kept?",
    ),
    "2026-05-11T09:00": (
        "Switched the DNS to Cloudflare, old records at Gandi expire in June",
        "who manages our domain names now?",
    ),
}
"""The value and the question by key."""
