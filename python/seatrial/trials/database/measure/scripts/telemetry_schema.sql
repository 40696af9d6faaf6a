-- What devices report: one row a device and minute. In braces: filled in by telemetry.py.
CREATE TABLE telemetry_sample (
    device integer NOT NULL,
    at timestamptz NOT NULL,
    temperature_c real NOT NULL,
    load_share real NOT NULL,
    sent_bytes bigint NOT NULL
);

-- The number of the row that was reported last; a batch takes as many numbers as it has rows.
CREATE SEQUENCE telemetry_number;

-- Rows by their numbers, from 1: in every minute each device reports once, in scattered order.
CREATE FUNCTION telemetry_rows(last_number bigint, rows bigint) RETURNS SETOF telemetry_sample
LANGUAGE sql STABLE AS $$
    SELECT
        (((number - 1) % {devices} * {stride}) % {devices})::integer,
        timestamptz '2010-10-04 00:00+00' + (number - 1) / {devices} * interval '1 minute',
        (20 + 15 * sin(number * 0.37))::real,
        ((hashint8(number) & 1023) / 1023.0)::real,
        (hashint8(number + 7) & 16777215)::bigint
    FROM generate_series(last_number - rows + 1, last_number) AS number
$$;

CREATE FUNCTION telemetry_now() RETURNS timestamptz
LANGUAGE sql STABLE AS $$
    SELECT timestamptz '2010-10-04 00:00+00' + last_value / {devices} * interval '1 minute'
    FROM telemetry_number
$$;
