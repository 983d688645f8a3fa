create table if not exists sessions (
    number integer primary key, name text not null unique, about blob not null
);
create table if not exists calls (
    number integer primary key, session integer not null, kind text not null, what text not null,
    k integer not null, outcome text not null, started text not null, seconds real not null,
    answer blob not null
);
create index if not exists calls_by_session on calls (session);
create index if not exists calls_by_what on calls (what, kind, k);
