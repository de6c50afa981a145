"""All policies: the best, the nearest and the least violating policy within limits on expectations."""
