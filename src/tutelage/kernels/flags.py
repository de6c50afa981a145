"""How every loop is compiled."""

# Sums may be reordered and fused; infinities and NaN keep their meaning.
FASTMATH = {"nsz", "contract", "reassoc"}
# Only fused: for code that relies on the order of its operations.
IN_ORDER = {"nsz", "contract"}
