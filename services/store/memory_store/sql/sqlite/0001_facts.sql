-- Names may change; everything else knows a namespace by its number.
CREATE TABLE namespace (
  id   INTEGER PRIMARY KEY,
  name TEXT    NOT NULL UNIQUE
);

-- What every version of every key said. Rows stay when the fact is superseded or removed.
CREATE TABLE fact_version (
  namespace_id  INTEGER NOT NULL REFERENCES namespace (id),
  key           TEXT    NOT NULL,
  version       INTEGER NOT NULL,
  value         TEXT    NOT NULL,
  tags          TEXT    NOT NULL,
  metadata      TEXT    NOT NULL,
  expires_at    INTEGER,
  created_at    INTEGER NOT NULL,
  written_at    INTEGER NOT NULL,
  removed_at    INTEGER,
  source_client TEXT    NOT NULL,
  principal     TEXT    NOT NULL,
  self_reported INTEGER NOT NULL,
  PRIMARY KEY (namespace_id, key, version)
);

-- Which keys hold something now, and in which version. AUTOINCREMENT: an id is never used again,
-- so a vector that arrives late cannot land on another fact.
CREATE TABLE fact (
  id           INTEGER PRIMARY KEY AUTOINCREMENT,
  namespace_id INTEGER NOT NULL REFERENCES namespace (id),
  key          TEXT    NOT NULL,
  version      INTEGER NOT NULL,
  expires_at   INTEGER,
  UNIQUE (namespace_id, key)
);
CREATE INDEX fact_expiry ON fact (expires_at) WHERE expires_at IS NOT NULL;

CREATE TABLE fact_tag (
  tag     TEXT    NOT NULL,
  fact_id INTEGER NOT NULL REFERENCES fact (id) ON DELETE CASCADE,
  PRIMARY KEY (fact_id, tag)
) WITHOUT ROWID;
CREATE INDEX fact_by_tag ON fact_tag (tag, fact_id);

-- The audit trail: appended to, never changed. Values are those of the versions it names;
-- `body` holds a value that became no version, which is what a conflict refused.
CREATE TABLE event (
  id             INTEGER PRIMARY KEY AUTOINCREMENT,
  at             INTEGER NOT NULL,
  namespace_id   INTEGER REFERENCES namespace (id),
  kind           TEXT    NOT NULL,
  key            TEXT,
  version        INTEGER,
  version_before INTEGER,
  version_after  INTEGER,
  body           TEXT,
  detail         TEXT    NOT NULL DEFAULT '{}',
  source_client  TEXT    NOT NULL,
  principal      TEXT    NOT NULL,
  self_reported  INTEGER NOT NULL,
  claimed_client TEXT,
  request_id     TEXT
);
CREATE INDEX event_by_key ON event (namespace_id, key, id);
CREATE INDEX event_of_writes ON event (namespace_id, id) WHERE kind NOT IN ('get', 'list', 'search');
CREATE INDEX event_by_namespace ON event (namespace_id, id);

-- First answers to writes that carried an idempotency key.
CREATE TABLE idempotency (
  principal     TEXT    NOT NULL,
  source_client TEXT    NOT NULL,
  key           TEXT    NOT NULL,
  digest        TEXT    NOT NULL,
  answer        TEXT    NOT NULL,
  at            INTEGER NOT NULL,
  PRIMARY KEY (principal, source_client, key)
);
CREATE INDEX idempotency_by_age ON idempotency (at);

-- Facts that await their vectors: at most one row a fact, for its newest version.
CREATE TABLE change (
  sequence     INTEGER PRIMARY KEY AUTOINCREMENT,
  subject      INTEGER NOT NULL UNIQUE REFERENCES fact (id) ON DELETE CASCADE,
  version      INTEGER NOT NULL,
  owner        TEXT,
  leased_until INTEGER,
  attempts     INTEGER NOT NULL DEFAULT 0,
  failed       INTEGER NOT NULL DEFAULT 0,
  reason       TEXT
);
CREATE INDEX change_waiting ON change (sequence) WHERE failed = 0;

CREATE TABLE model (
  id        INTEGER PRIMARY KEY,
  identity  TEXT    NOT NULL UNIQUE,
  dimension INTEGER NOT NULL,
  in_use    INTEGER NOT NULL
);

CREATE TABLE vector (
  id        INTEGER PRIMARY KEY,
  subject   INTEGER NOT NULL REFERENCES fact (id) ON DELETE CASCADE,
  model     INTEGER NOT NULL REFERENCES model (id),
  piece     INTEGER NOT NULL,
  version   INTEGER NOT NULL,
  embedding BLOB    NOT NULL,
  UNIQUE (subject, model, piece)
);

-- Which facts' vectors came or went: what an index in memory reads to follow the table.
CREATE TABLE vector_log (
  id      INTEGER PRIMARY KEY AUTOINCREMENT,
  subject INTEGER NOT NULL
);
CREATE TRIGGER vector_came AFTER INSERT ON vector
  BEGIN INSERT INTO vector_log (subject) VALUES (new.subject); END;
CREATE TRIGGER vector_went AFTER DELETE ON vector
  BEGIN INSERT INTO vector_log (subject) VALUES (old.subject); END;

-- Posting lists only (no content). The words are made by words.py, so the tokenizer merely splits
-- at white space; `recipe` in index_state names the version of words.py that made them.
CREATE VIRTUAL TABLE fact_words USING fts5 (
  ns, words, content = '',
  tokenize = "ascii tokenchars '!#$%&()*+,-./:;<=>?@[\]^_`{|}~'"
);
CREATE VIRTUAL TABLE fact_vocabulary USING fts5vocab (fact_words, row);
CREATE TABLE index_state (
  name  TEXT PRIMARY KEY,
  value TEXT NOT NULL
);

-- Per-client tokens. A name is used once and for ever: the trail speaks of it.
CREATE TABLE token (
  name         TEXT    PRIMARY KEY,
  scopes       TEXT    NOT NULL,
  namespaces   TEXT,
  created_at   INTEGER NOT NULL,
  created_by   TEXT    NOT NULL,
  expires_at   INTEGER,
  last_used_at INTEGER,
  revoked_at   INTEGER
);

-- What proves a token, as SHA-256. More than one while a rotation overlaps.
CREATE TABLE token_secret (
  digest     TEXT    PRIMARY KEY,
  token      TEXT    NOT NULL REFERENCES token (name),
  expires_at INTEGER
);
CREATE INDEX token_secret_by_token ON token_secret (token);
