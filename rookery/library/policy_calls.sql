create table if not exists transcripts (number integer primary key, session text not null unique);
create table if not exists asked (digest text primary key, body blob not null) without rowid;
create table if not exists said (
    number integer primary key, transcript integer not null, by text not null,
    prompt text not null, n integer not null, seed integer, grammar text not null,
    started text not null, seconds real not null, answer blob not null
);
create index if not exists said_by_transcript on said (transcript);
