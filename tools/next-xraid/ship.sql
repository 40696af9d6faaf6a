\set order_id 1 + :orders - random_zipfian(1, :orders, 1.02)
UPDATE orders SET status = 'shipped' WHERE id = :order_id;
SELECT sum(quantity * price) FROM lines WHERE order_id = :order_id;
