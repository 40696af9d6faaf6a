-- Room is left in the leaves, as in an index that grew row by row: one that was packed full would
-- split a page at each device's first rows.
ALTER TABLE telemetry_sample ADD PRIMARY KEY (device, at) WITH (fillfactor = 70);
CREATE INDEX telemetry_sample_at ON telemetry_sample (at);
VACUUM ANALYZE telemetry_sample;
