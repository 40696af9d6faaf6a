\set z random_zipfian(1, :customers, 1.05)
\set customer 1 + permute(:z - 1, :customers)
\set product random(1, 5000)
\set total random(10, 50000) / 100.0
BEGIN;
INSERT INTO orders (customer, status, class_code, carrier, total) VALUES (:customer, 'new', 'K7', 'Carrier 3', :total) RETURNING id AS order_id \gset
INSERT INTO lines (order_id, product, class_code, unit, quantity, price) VALUES (:order_id, :product, 'K7', 'piece', 1, 9.90), (:order_id, 17, 'K7', 'piece', 2, 4.50);
UPDATE customers SET ordered = ordered + 1 WHERE id = :customer;
COMMIT;
