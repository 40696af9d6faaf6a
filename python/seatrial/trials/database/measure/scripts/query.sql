\set device random(0, :devices - 1)
SELECT
    floor(extract(epoch FROM at) / 300) AS five_minutes,
    count(*), min(temperature_c), max(temperature_c), avg(load_share), sum(sent_bytes)
FROM telemetry_sample
WHERE device = :device AND at > telemetry_now() - interval '1 hour'
GROUP BY five_minutes
ORDER BY five_minutes;
