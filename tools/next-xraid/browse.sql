\set z random_zipfian(1, :customers, 1.05)
\set customer 1 + permute(:z - 1, :customers)
SELECT name, region, class_code, ordered FROM customers WHERE id = :customer;
SELECT coalesce(max(id), 1) AS order_id FROM orders WHERE customer = :customer \gset
SELECT id, status, total, placed FROM orders WHERE customer = :customer ORDER BY id DESC LIMIT 5;
SELECT product, class_code, quantity, price FROM lines WHERE order_id = :order_id;
