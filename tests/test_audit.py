"""What ``verify`` says, in words."""

from workshop import Workshop


def test_one_of_a_kind_is_counted_in_the_singular(tmp_path):
    shop = Workshop(tmp_path)
    keeper = shop.keeper()
    keeper.start("custom", "alone", phases=["only"])
    assert keeper.verify().lines[-1]["message"] == "2 events, 1 stream, 1 record"
    assert "1 stream · 1 record · 0 behind · 0 errors" in shop.run("verify").stdout.decode()
