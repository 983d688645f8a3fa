-- The tables of a page archive in PostgreSQL.
-- An index that orders takes values of 2,700 bytes at most, and addresses and questions may be
-- longer: those are found by their hashes. Every writer holds one lock, so no row comes twice.
create table texts (digest bytea primary key, body bytea not null);
create table layouts (digest bytea primary key, body bytea not null);
create table versions (number bigint generated always as identity primary key,
    url bytea not null, digest bytea not null,
    title bytea not null, layout bytea not null, fetched bytea not null, seen bigint not null);
create index versions_by_digest on versions (digest);
create index versions_by_url on versions using hash (url);
create table redirects (asked bytea not null, url bytea not null);
create index redirects_by_asked on redirects using hash (asked);
create table searches (engine bytea not null, query bytea not null, hits bytea not null);
create index searches_by_query on searches using hash (query);
create table sessions (number bigint generated always as identity primary key,
    name bytea not null unique, about bytea not null);
create table calls (number bigint generated always as identity primary key,
    session bigint not null, kind bytea not null, what bytea not null,
    k bigint not null, outcome bytea not null, started bytea not null,
    seconds double precision not null, answer bytea not null);
create index calls_by_session on calls (session);
create index calls_by_what on calls using hash (what);
create table transcripts (number bigint generated always as identity primary key,
    session bytea not null unique);
create table asked (digest bytea primary key, body bytea not null);
create table said (number bigint generated always as identity primary key,
    transcript bigint not null, by bytea not null,
    prompt bytea not null, n bigint not null, seed bigint, grammar bytea not null,
    started bytea not null, seconds double precision not null, answer bytea not null);
create index said_by_transcript on said (transcript);
create table about (format bigint not null);
