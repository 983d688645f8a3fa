-- The tables of a page archive in SQLite.
create table if not exists texts (digest text primary key, body blob not null) without rowid;
create table if not exists layouts (digest text primary key, body blob not null) without rowid;
create table if not exists versions (
    number integer primary key, url text not null, digest text not null, title text not null,
    layout text not null, fetched text not null, seen integer not null,
    unique (url, digest, title, layout)
);
create index versions_by_digest on versions (digest);
create index versions_by_url on versions (url, seen);
create table if not exists redirects (asked text primary key, url text not null) without rowid;
create table if not exists searches (
    engine text not null, query text not null, hits blob not null, primary key (engine, query)
) without rowid;
