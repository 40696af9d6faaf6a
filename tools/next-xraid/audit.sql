\set order_id random(1, :orders)
SELECT remark FROM orders WHERE id = :order_id;
