INSERT INTO telemetry_sample
SELECT * FROM telemetry_rows(nextval('telemetry_number'), :batch_rows);
