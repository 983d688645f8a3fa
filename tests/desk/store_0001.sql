BEGIN TRANSACTION;
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('0001');
CREATE TABLE audits (
	number INTEGER NOT NULL, 
	person TEXT NOT NULL, 
	action TEXT NOT NULL, 
	what TEXT NOT NULL, 
	at DOUBLE NOT NULL, 
	chain TEXT NOT NULL, 
	CONSTRAINT pk_audits PRIMARY KEY (number)
);
INSERT INTO "audits" VALUES(0,'the command line','invite','Ada: admin',1700000000.0,'cd76790c3c7f0672d47bfb510352b5f2f0f87a339e87890ba4504bbc3ab7db41');
CREATE TABLE drafts (
	item TEXT NOT NULL, 
	person TEXT NOT NULL, 
	body TEXT NOT NULL, 
	saved DOUBLE NOT NULL, 
	CONSTRAINT pk_drafts PRIMARY KEY (item, person), 
	CONSTRAINT fk_drafts_item FOREIGN KEY(item) REFERENCES items (id), 
	CONSTRAINT fk_drafts_person FOREIGN KEY(person) REFERENCES people (name)
);
CREATE TABLE events (
	stream TEXT NOT NULL, 
	number INTEGER NOT NULL, 
	person TEXT NOT NULL, 
	body TEXT NOT NULL, 
	at DOUBLE NOT NULL, 
	chain TEXT NOT NULL, 
	CONSTRAINT pk_events PRIMARY KEY (stream, number)
);
CREATE TABLE exclusions (
	number INTEGER NOT NULL, 
	what TEXT NOT NULL, 
	which TEXT NOT NULL, 
	reason TEXT NOT NULL, 
	"by" TEXT NOT NULL, 
	at DOUBLE NOT NULL, 
	lifts INTEGER, 
	CONSTRAINT pk_exclusions PRIMARY KEY (number), 
	CONSTRAINT fk_exclusions_lifts FOREIGN KEY(lifts) REFERENCES exclusions (number), 
	CONSTRAINT uq_exclusions_lifts UNIQUE (lifts)
);
CREATE TABLE guides (
	form TEXT NOT NULL, 
	version INTEGER NOT NULL, 
	text TEXT NOT NULL, 
	"by" TEXT NOT NULL, 
	at DOUBLE NOT NULL, 
	CONSTRAINT pk_guides PRIMARY KEY (form, version)
);
CREATE TABLE invites (
	token TEXT NOT NULL, 
	person TEXT NOT NULL, 
	until DOUBLE NOT NULL, 
	used DOUBLE, 
	CONSTRAINT pk_invites PRIMARY KEY (token), 
	CONSTRAINT fk_invites_person FOREIGN KEY(person) REFERENCES people (name)
);
INSERT INTO "invites" VALUES('8b913c613dba6d7f99788c37ee61dc2a52fd9b3a835b92347ecc0a4acc2a88b5','Ada',1700604800.0,NULL);
CREATE TABLE items (
	id TEXT NOT NULL, 
	number INTEGER NOT NULL, 
	batch TEXT NOT NULL, 
	form TEXT NOT NULL, 
	body TEXT NOT NULL, 
	wanted INTEGER NOT NULL, 
	priority INTEGER NOT NULL, 
	gold BOOLEAN NOT NULL, 
	prelude BOOLEAN NOT NULL, 
	policy INTEGER, 
	made DOUBLE NOT NULL, 
	retired DOUBLE, 
	why TEXT, 
	CONSTRAINT pk_items PRIMARY KEY (id), 
	CONSTRAINT uq_items_number UNIQUE (number)
);
INSERT INTO "items" VALUES('2519e0efaa314a0c5f5bd010e1ae55f1',1,'first','compare','{"form":"compare","question":{"id":"0","text":"Why?","pages":[],"gold":[],"source":""},"answers":[],"writers":[],"start":"","rules":{"actions":100,"quoted":6000,"quotes":0,"window":2000,"results":10,"blocked":["reddit.com","quora.com"],"overlap":10,"title":200},"gold":null,"source":""}',2,0,0,0,NULL,1700000000.0,NULL,NULL);
INSERT INTO "items" VALUES('f64a3124bb34095d5453a9505a8cb1c8',2,'first','compare','{"form":"compare","question":{"id":"1","text":"Why?","pages":[],"gold":[],"source":""},"answers":[],"writers":[],"start":"","rules":{"actions":100,"quoted":6000,"quotes":0,"window":2000,"results":10,"blocked":["reddit.com","quora.com"],"overlap":10,"title":200},"gold":null,"source":""}',2,0,0,0,NULL,1700000000.0,NULL,NULL);
INSERT INTO "items" VALUES('9613e0411b5d51653d56eb5afa9bdd8b',3,'first','compare','{"form":"compare","question":{"id":"2","text":"Why?","pages":[],"gold":[],"source":""},"answers":[],"writers":[],"start":"","rules":{"actions":100,"quoted":6000,"quotes":0,"window":2000,"results":10,"blocked":["reddit.com","quora.com"],"overlap":10,"title":200},"gold":null,"source":""}',2,0,0,0,NULL,1700000000.0,NULL,NULL);
CREATE TABLE judgements (
	id TEXT NOT NULL, 
	number INTEGER NOT NULL, 
	item TEXT NOT NULL, 
	person TEXT NOT NULL, 
	kind TEXT NOT NULL, 
	body TEXT NOT NULL, 
	ended DOUBLE NOT NULL, 
	supersedes TEXT, 
	CONSTRAINT pk_judgements PRIMARY KEY (id), 
	CONSTRAINT fk_judgements_item FOREIGN KEY(item) REFERENCES items (id), 
	CONSTRAINT fk_judgements_person FOREIGN KEY(person) REFERENCES people (name), 
	CONSTRAINT fk_judgements_supersedes FOREIGN KEY(supersedes) REFERENCES judgements (id), 
	CONSTRAINT uq_judgements_number UNIQUE (number), 
	CONSTRAINT uq_judgements_supersedes UNIQUE (supersedes)
);
INSERT INTO "judgements" VALUES('721005a389fb4eabe3adf48ea3e8ef20',1,'2519e0efaa314a0c5f5bd010e1ae55f1','Ada','done','{"id":"721005a389fb4eabe3adf48ea3e8ef20","item":"2519e0efaa314a0c5f5bd010e1ae55f1","by":"Ada","kind":"done","filled":{"overall":1},"form_version":"v","guide_version":1,"order":[],"whole":false,"began":0.0,"ended":1.0,"supersedes":""}',1.0,NULL);
CREATE TABLE leases (
	token TEXT NOT NULL, 
	item TEXT NOT NULL, 
	person TEXT NOT NULL, 
	began DOUBLE NOT NULL, 
	CONSTRAINT pk_leases PRIMARY KEY (token), 
	CONSTRAINT fk_leases_item FOREIGN KEY(item) REFERENCES items (id), 
	CONSTRAINT fk_leases_person FOREIGN KEY(person) REFERENCES people (name)
);
INSERT INTO "leases" VALUES('Kng2TlA7CRyDQFYETTt0gCbq9m1ycQQ_','2519e0efaa314a0c5f5bd010e1ae55f1','Ada',1700000000.0);
CREATE TABLE pages (
	"key" TEXT NOT NULL, 
	digest TEXT NOT NULL, 
	url TEXT NOT NULL, 
	body TEXT NOT NULL, 
	CONSTRAINT pk_pages PRIMARY KEY ("key")
);
CREATE TABLE people (
	name TEXT NOT NULL, 
	role TEXT NOT NULL, 
	made DOUBLE NOT NULL, 
	gone DOUBLE, 
	CONSTRAINT pk_people PRIMARY KEY (name)
);
INSERT INTO "people" VALUES('Ada','admin',1700000000.0,NULL);
CREATE TABLE pulls (
	number INTEGER NOT NULL, 
	run TEXT NOT NULL, 
	person TEXT NOT NULL, 
	reason TEXT NOT NULL, 
	at DOUBLE NOT NULL, 
	CONSTRAINT pk_pulls PRIMARY KEY (number), 
	CONSTRAINT fk_pulls_run FOREIGN KEY(run) REFERENCES runs (name)
);
CREATE TABLE releases (
	pull INTEGER NOT NULL, 
	person TEXT NOT NULL, 
	reason TEXT NOT NULL, 
	at DOUBLE NOT NULL, 
	CONSTRAINT pk_releases PRIMARY KEY (pull), 
	CONSTRAINT fk_releases_pull FOREIGN KEY(pull) REFERENCES pulls (number)
);
CREATE TABLE runs (
	name TEXT NOT NULL, 
	began DOUBLE NOT NULL, 
	seen DOUBLE NOT NULL, 
	step INTEGER NOT NULL, 
	ended TEXT, 
	CONSTRAINT pk_runs PRIMARY KEY (name)
);
CREATE TABLE samples (
	number INTEGER NOT NULL, 
	run TEXT NOT NULL, 
	step INTEGER NOT NULL, 
	shown TEXT NOT NULL, 
	said TEXT NOT NULL, 
	reward DOUBLE, 
	at DOUBLE NOT NULL, 
	CONSTRAINT pk_samples PRIMARY KEY (number), 
	CONSTRAINT fk_samples_run FOREIGN KEY(run) REFERENCES runs (name)
);
CREATE TABLE sessions (
	token TEXT NOT NULL, 
	person TEXT NOT NULL, 
	began DOUBLE NOT NULL, 
	seen DOUBLE NOT NULL, 
	ended DOUBLE, 
	CONSTRAINT pk_sessions PRIMARY KEY (token), 
	CONSTRAINT fk_sessions_person FOREIGN KEY(person) REFERENCES people (name)
);
CREATE TABLE slots (
	item TEXT NOT NULL, 
	number INTEGER NOT NULL, 
	person TEXT, 
	token TEXT, 
	began DOUBLE, 
	until DOUBLE, 
	done BOOLEAN NOT NULL, 
	retired BOOLEAN NOT NULL, 
	form TEXT NOT NULL, 
	rank INTEGER NOT NULL, 
	arrival INTEGER NOT NULL, 
	CONSTRAINT pk_slots PRIMARY KEY (item, number), 
	CONSTRAINT fk_slots_item FOREIGN KEY(item) REFERENCES items (id), 
	CONSTRAINT fk_slots_person FOREIGN KEY(person) REFERENCES people (name), 
	CONSTRAINT uq_slots_person_item UNIQUE (person, item)
);
INSERT INTO "slots" VALUES('2519e0efaa314a0c5f5bd010e1ae55f1',0,'Ada','Kng2TlA7CRyDQFYETTt0gCbq9m1ycQQ_',1700000000.0,NULL,1,0,'compare',0,1);
INSERT INTO "slots" VALUES('2519e0efaa314a0c5f5bd010e1ae55f1',1,NULL,NULL,NULL,NULL,0,0,'compare',0,1);
INSERT INTO "slots" VALUES('f64a3124bb34095d5453a9505a8cb1c8',0,NULL,NULL,NULL,NULL,0,0,'compare',0,2);
INSERT INTO "slots" VALUES('f64a3124bb34095d5453a9505a8cb1c8',1,NULL,NULL,NULL,NULL,0,0,'compare',0,2);
INSERT INTO "slots" VALUES('9613e0411b5d51653d56eb5afa9bdd8b',0,NULL,NULL,NULL,NULL,0,0,'compare',0,3);
INSERT INTO "slots" VALUES('9613e0411b5d51653d56eb5afa9bdd8b',1,NULL,NULL,NULL,NULL,0,0,'compare',0,3);
CREATE TABLE snapshots (
	name TEXT NOT NULL, 
	body TEXT NOT NULL, 
	digest TEXT NOT NULL, 
	"by" TEXT NOT NULL, 
	at DOUBLE NOT NULL, 
	CONSTRAINT pk_snapshots PRIMARY KEY (name)
);
CREATE INDEX ix_pages_digest ON pages (digest);
CREATE INDEX ix_items_batch ON items (batch, prelude);
CREATE INDEX ix_slots_held ON slots (person) WHERE done = 0;
CREATE INDEX ix_slots_next ON slots (rank, number, arrival) WHERE done = 0 AND retired = 0;
CREATE INDEX ix_slots_next_of_form ON slots (form, rank, number, arrival) WHERE done = 0 AND retired = 0;
CREATE INDEX ix_judgements_item ON judgements (item);
CREATE INDEX ix_judgements_person ON judgements (person, item);
CREATE INDEX ix_samples_run ON samples (run);
CREATE INDEX ix_pulls_run ON pulls (run);
COMMIT;
